#include "coordinator/service/token_meter.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr Instant kStart{1'700'000'000'000'000'000};

struct Meter : TokenMeter {
  // Once a second from `from` to `to`, that many tokens more each time.
  void train(int from, int to, std::int64_t each) {
    for (int second = from; second < to; ++second) {
      heard(kStart + seconds(second), Tokens(tokens), false);
      tokens += each;
    }
  }
  double at(int second) const { return per_second(kStart + seconds(second)).value_or(-1); }
  std::int64_t tokens = 0;
};

TEST(TokenMeter, KnowsNothingAtFirst) {
  Meter meter;
  EXPECT_FALSE(meter.per_second(kStart));
  meter.train(0, 1, 100);
  EXPECT_FALSE(meter.per_second(kStart + seconds(1)));
  meter.train(1, 3, 100);
  EXPECT_DOUBLE_EQ(meter.at(2), 100);
}

// Replicas train for 10 s of every 40 s, and wait or average for the rest.
TEST(TokenMeter, WaitingCountsAsTime) {
  Meter meter;
  for (int round = 0; round < 8; ++round) {
    meter.train(40 * round, 40 * round + 10, 1000);
    meter.train(40 * round + 10, 40 * round + 40, 0);
    meter.heard(kStart + seconds(40 * round + 40), Tokens(meter.tokens), true);
  }
  EXPECT_DOUBLE_EQ(meter.at(320), 250) << "whole rounds";
  meter.train(321, 325, 1000);
  EXPECT_NEAR(meter.at(325), 250, 60);
}

TEST(TokenMeter, CommitsThatFollowFastAreKeptApart) {
  Meter meter;
  for (int tenth = 0; tenth < 3000; ++tenth) {
    meter.heard(kStart + milliseconds(100 * tenth), Tokens(10 * tenth), true);
  }
  EXPECT_NEAR(meter.at(300), 100, 1);
}

TEST(TokenMeter, OneLongRoundIsMeasuredOverItsLastMinute) {
  Meter meter;
  meter.train(0, 400, 100);
  meter.train(400, 600, 10);
  EXPECT_NEAR(meter.at(600), 10, 1);
}

TEST(TokenMeter, WhatTheRoundLosesIsNoNegativeSpeed) {
  Meter meter;
  meter.train(0, 20, 100);
  meter.heard(kStart + seconds(20), Tokens(0), true);
  EXPECT_EQ(meter.at(21), 0);
}

TEST(TokenMeter, FallsWhileNobodySpeaks) {
  Meter meter;
  meter.train(0, 100, 100);
  EXPECT_NEAR(meter.at(129), 50, 2);
  EXPECT_EQ(meter.at(200), 0);
}

}  // namespace
}  // namespace shoal::coordinator
