#include "data/chunk_memory.h"

#include <thread>

#include <gtest/gtest.h>

namespace shoal::data {
namespace {

// Reads are counted; those of `bad` fail.
class ChunkMemoryTest : public testing::Test {
 protected:
  Result<std::string> read(std::int64_t number) {
    const MutexLock guard(mutex_);
    ++reads_[number];
    changed_.notify_all();
    if (number == bad_) return Error{Code::kUnavailable, "nobody answers", "", ""};
    return std::string(10, static_cast<char>('a' + number % 26));
  }
  int reads_of(std::int64_t number) {
    const MutexLock guard(mutex_);
    return reads_[number];
  }
  void wait_for_read(std::int64_t number) {
    const MutexLock guard(mutex_);
    ASSERT_TRUE(changed_.wait_for(mutex_, std::chrono::seconds(30),
                                  [&]() SHOAL_REQUIRES(mutex_) { return reads_[number] > 0; }));
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::int64_t, int> reads_ SHOAL_GUARDED_BY(mutex_);
  std::int64_t bad_ = -1;
  ChunkMemory memory_{[this](std::int64_t number) { return read(number); }, Bytes(35)};
};

TEST_F(ChunkMemoryTest, ReadsOnceWhatIsThere) {
  EXPECT_EQ(**memory_.get(1), "bbbbbbbbbb");
  EXPECT_EQ(**memory_.get(1), "bbbbbbbbbb");
  EXPECT_EQ(reads_of(1), 1);
}

TEST_F(ChunkMemoryTest, WhatWasUsedLongestAgoGoes) {
  for (const int number : {1, 2, 3, 1, 4}) ASSERT_TRUE(memory_.get(number).ok());
  EXPECT_TRUE(memory_.has(1));
  EXPECT_FALSE(memory_.has(2));
  EXPECT_TRUE(memory_.has(4));
}

TEST_F(ChunkMemoryTest, ReadsAhead) {
  memory_.read_ahead({1, 2});
  wait_for_read(1);
  wait_for_read(2);
  EXPECT_EQ(**memory_.get(2), "cccccccccc");
  EXPECT_EQ(reads_of(2), 1);
}

TEST_F(ChunkMemoryTest, WhatFailedIsTriedAgainByWhoAsks) {
  bad_ = 3;
  memory_.read_ahead({3});
  wait_for_read(3);
  EXPECT_EQ(memory_.get(3).error().code, Code::kUnavailable);
  EXPECT_FALSE(memory_.has(3));
}

TEST_F(ChunkMemoryTest, SeveralThreadsReadItOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([this] { EXPECT_TRUE(memory_.get(5).ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reads_of(5), 1);
}

}  // namespace
}  // namespace shoal::data
