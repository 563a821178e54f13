#include "threads/sleep.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace shoal {
namespace {

using std::chrono::steady_clock;

TEST(SleepUnlessStopped, ItTakesItsTime) {
  const auto before = steady_clock::now();
  EXPECT_TRUE(sleep_unless_stopped(milliseconds(20), {}));
  EXPECT_GE(steady_clock::now() - before, std::chrono::milliseconds(20));
}

TEST(SleepUnlessStopped, ARequestEndsItAtOnce) {
  std::stop_source source;
  std::jthread other([&] { source.request_stop(); });
  EXPECT_FALSE(sleep_unless_stopped(seconds(3600), source.get_token()));
  EXPECT_FALSE(sleep_unless_stopped(seconds(3600), source.get_token()));
}

}  // namespace
}  // namespace shoal
