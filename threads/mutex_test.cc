#include "threads/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace shoal {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{30};

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value SHOAL_GUARDED_BY(mutex) = 0;

  void add() SHOAL_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    ++value;
    changed.notify_all();
  }
  bool reaches(int expected) SHOAL_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    return changed.wait_for(mutex, kPatience,
                            [&]() SHOAL_REQUIRES(mutex) { return value == expected; });
  }
};

TEST(Mutex, FourThreadsLoseNoIncrement) {
  Counter counter;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10'000; ++k) counter.add();
    });
  }
  EXPECT_TRUE(counter.reaches(40'000));
}

TEST(MutexLock, WhatItReleasedSomebodyElseMayTake) {
  Counter counter;
  MutexLock lock(counter.mutex);
  lock.unlock();
  std::thread([&] { counter.add(); }).join();
  lock.lock();
  EXPECT_EQ(counter.value, 1);
}

TEST(MutexLock, ItIsReleasedOnceAtTheEnd) {
  Counter counter;
  {
    MutexLock lock(counter.mutex);
    lock.unlock();
  }
  const MutexLock again(counter.mutex);
  EXPECT_EQ(counter.value, 0);
}

TEST(MutexUnlock, SomebodyElseMayTakeItMeanwhile) {
  Counter counter;
  const MutexLock lock(counter.mutex);
  {
    const MutexUnlock meanwhile(counter.mutex);
    std::thread([&] { counter.add(); }).join();
  }
  EXPECT_EQ(counter.value, 1);
}

TEST(CondVar, AWaitEndsWithItsPredicate) {
  Counter counter;
  std::jthread other([&] { counter.add(); });
  const MutexLock lock(counter.mutex);
  counter.changed.wait(counter.mutex,
                       [&]() SHOAL_REQUIRES(counter.mutex) { return counter.value == 1; });
  EXPECT_EQ(counter.value, 1);
}

TEST(CondVar, ADeadlineThatPassedSaysFalseAndLeavesTheLockHeld) {
  Counter counter;
  const MutexLock lock(counter.mutex);
  EXPECT_FALSE(
      counter.changed.wait_until(counter.mutex, steady_clock::now(), [] { return false; }));
  EXPECT_FALSE(
      counter.changed.wait_for(counter.mutex, std::chrono::milliseconds(1), [] { return false; }));
  ++counter.value;
}

// It holds the mutex itself: the caller has it back, too, when its predicate throws.
TEST(CondVar, APredicateThatThrowsLeavesTheLockHeld) {
  Counter counter;
  {
    const MutexLock lock(counter.mutex);
    EXPECT_THROW(counter.changed.wait(counter.mutex, []() -> bool { throw 1; }), int);
  }
  counter.add();
  EXPECT_TRUE(counter.reaches(1));
}

}  // namespace
}  // namespace shoal
