// Times and their order.
#include <future>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "wire/timer_thread.h"

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

TEST(TimerThread, WhatIsDueLaterIsDropped) {
  bool called = false;
  auto timer = std::make_unique<TimerThread>();
  timer->at(TimerThread::Clock::now() + 1h, [&] { called = true; });
  timer.reset();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace shoal::wire
