#include "base/transfer_patience.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

constexpr Instant kStart{1'000'000'000};

class PatienceTest : public testing::Test {
 protected:
  PatienceTest() { patience_.begin(kStart); }
  TransferPatience patience_{seconds(60), seconds(1), seconds(8)};
  Prng prng_{1};
};

TEST_F(PatienceTest, EndsWhenNothingMoves) {
  Instant now = kStart;
  int tries = 0;
  while (const auto again = patience_.broke(now, prng_)) {
    EXPECT_GT(*again, now);
    now = *again;
    ++tries;
  }
  EXPECT_EQ(now, kStart + seconds(60));
  EXPECT_GT(tries, 8);
}

// A line that carries a hundredth of it and breaks each time, for a day.
TEST_F(PatienceTest, NeverEndsWhileItMoves) {
  Instant now = kStart;
  for (std::int64_t done = 1; done <= 1500; ++done) {
    now = now + seconds(50);
    ASSERT_TRUE(patience_.moved(now, Bytes(done)));
    const auto again = patience_.broke(now, prng_);
    ASSERT_TRUE(again);
    EXPECT_LE(*again, now + seconds(1)) << "each break is the first one again";
  }
}

// Sent again and again, but never further.
TEST_F(PatienceTest, WhatWasThereBeforeIsNoMovement) {
  EXPECT_TRUE(patience_.moved(kStart + seconds(10), Bytes(100)));
  EXPECT_FALSE(patience_.moved(kStart + seconds(50), Bytes(100)));
  EXPECT_FALSE(patience_.moved(kStart + seconds(60), Bytes(40)));
  EXPECT_EQ(patience_.gives_up_at(), kStart + seconds(70));
  EXPECT_FALSE(patience_.broke(kStart + seconds(70), prng_));
}

TEST_F(PatienceTest, WhatOthersTookIsForgiven) {
  patience_.forgive(seconds(100));
  EXPECT_EQ(patience_.gives_up_at(), kStart + seconds(160));
}

TEST_F(PatienceTest, BeginsAnewWhenTold) {
  patience_.begin(kStart + seconds(500));
  EXPECT_TRUE(patience_.broke(kStart + seconds(501), prng_));
}

TEST(StallFor, GrowsWithTheSize) {
  EXPECT_EQ(stall_for(seconds(60), Bytes(0)), seconds(60));
  EXPECT_EQ(stall_for(seconds(60), Bytes(2'000'000'000)), seconds(160));
}

}  // namespace
}  // namespace shoal
