// Times and their order.
#include "wire/timer_thread.h"

#include <future>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace shoal::wire {
namespace {

using namespace std::chrono_literals;

TEST(TimerThread, CallsInTheOrderOfTimes) {
  TimerThread timer;
  std::vector<int> order;
  std::promise<void> done;
  const auto now = TimerThread::Clock::now();
  timer.at(now + 30ms, [&] { order.push_back(3), done.set_value(); });
  timer.at(now + 10ms, [&] {
    order.push_back(1);
    timer.at(now + 20ms, [&] { order.push_back(2); });
  });
  ASSERT_EQ(done.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(TimerThread::Clock::now(), now + 30ms);
}

TEST(TimerThread, AnIdleThreadIsWoken) {
  TimerThread timer;
  for (int i = 0; i < 100; ++i) {
    std::promise<void> done;
    timer.at(TimerThread::Clock::now(), [&] { done.set_value(); });
    ASSERT_EQ(done.get_future().wait_for(10s), std::future_status::ready);
  }
}

TEST(TimerThread, StoppingCallsWhatIsLeft) {
  int called = 0;
  TimerThread timer;
  const auto later = TimerThread::Clock::now() + 1h;
  timer.at(later, [&] { ++called, timer.at(later, [&] { ++called; }); });
  timer.stop();
  EXPECT_EQ(called, 2);
  timer.at(later, [&] { ++called; });
  EXPECT_EQ(called, 3);
  timer.stop();
  EXPECT_EQ(called, 3) << "each once, however often it is stopped";
}

}  // namespace
}  // namespace shoal::wire
