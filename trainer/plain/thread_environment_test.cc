#include "trainer/plain/thread_environment.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/thread_environment.h"

namespace shoal::trainer {
namespace {

class ThreadEnvironment : public testing::Test {
 protected:
  ThreadEnvironment() {
    for (const EnvironmentEntry& entry : kThreadEnvironment) unsetenv(entry.name);
  }
};

TEST_F(ThreadEnvironment, IsCompletedOnce) {
  EXPECT_TRUE(complete_thread_environment());
  for (const EnvironmentEntry& entry : kThreadEnvironment) {
    EXPECT_STREQ(std::getenv(entry.name), entry.value);
  }
  EXPECT_FALSE(complete_thread_environment()) << "nothing is missing: no second start";
}

TEST_F(ThreadEnvironment, OfTheOperatorStays) {
  setenv("OMP_WAIT_POLICY", "ACTIVE", 1);
  EXPECT_TRUE(complete_thread_environment()) << "the other one is missing";
  EXPECT_STREQ(std::getenv("OMP_WAIT_POLICY"), "ACTIVE");
}

}  // namespace
}  // namespace shoal::trainer
