#include "coordinator/core/decisions/join_share.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr std::int64_t kState = 1000, kLine = 10;  // bytes, bytes per second

JoinReport report(std::int64_t second, std::int64_t done, std::int64_t received,
                  std::int64_t per_round, RoundNumber round) {
  return {Instant{} + seconds(1 + second),
          Bytes(done),
          Bytes(kState),
          Bytes(received),
          Bytes(per_round),
          round};
}

// A line of 10 bytes a second that is always full, rounds of 5 s.
JoinWatch after(std::int64_t seconds_, std::int64_t per_round, std::int64_t done_per_s) {
  JoinWatch watch;
  for (std::int64_t s = 0; s <= seconds_; ++s) {
    watch.heard(report(s, std::min(kState, s * done_per_s), s * kLine, per_round, s / 5));
  }
  return watch;
}

TEST(JoinShare, IsWhatTheAveragesOfTheRoundsTakeOfTheLine) {
  const JoinShare share = decide_join_share(report(0, 0, 0, 0, 0), report(20, 100, 200, 20, 4));
  EXPECT_DOUBLE_EQ(share.share, 20.0 * 4 / 200);
  EXPECT_DOUBLE_EQ(share.rate, kLine);
  EXPECT_EQ(share.rounds, 4);
}

TEST(JoinShare, TheTimeLeftIsTheBareTimeOverOneMinusTheShare) {
  const JoinShare share = decide_join_share(report(0, 0, 0, 0, 0), report(20, 200, 200, 20, 4));
  ASSERT_TRUE(share.left);
  EXPECT_NEAR(share.left->seconds(), (1000 - 200) / 10.0 / (1 - .4), 1e-6);
}

TEST(JoinShare, AThirdOfTheLineIsSteadyAndMoreIsSlow) {
  EXPECT_EQ(after(30, 16, 6).share().pace, JoinPace::kSteady);
  EXPECT_EQ(after(30, 18, 6).share().pace, JoinPace::kSlow);
}

TEST(JoinShare, NothingIsSaidBeforeItIsMeasuredOverTimeAndRounds) {
  EXPECT_EQ(after(9, 40, 1).share().pace, JoinPace::kMeasuring);
  EXPECT_EQ(after(10, 40, 1).share().pace, JoinPace::kSlow);
  JoinWatch one_round;
  for (int s = 0; s < 60; ++s) one_round.heard(report(s, s, s * kLine, 600, s / 50));
  EXPECT_EQ(one_round.share().pace, JoinPace::kMeasuring);
}

TEST(JoinShare, ALineThatTheAveragesFillNeverBringsTheState) {
  EXPECT_EQ(after(29, 60, 0).share().pace, JoinPace::kSlow) << "of one sample nothing follows";
  EXPECT_EQ(after(31, 60, 0).share().pace, JoinPace::kNever);
  EXPECT_FALSE(after(31, 60, 0).share().left);
}

TEST(JoinShare, WhoComesFurtherIsNotGivenUp) {
  EXPECT_EQ(after(31, 60, 1).share().pace, JoinPace::kSlow);
}

// It came to two thirds before, and stands since.
TEST(JoinShare, WhatWasOnceFetchedDoesNotHideThatItStandsStill) {
  JoinWatch watch;
  for (std::int64_t s = 0; s <= 200; ++s) {
    watch.heard(report(s, std::min<std::int64_t>(660, s * kLine), s * kLine, 60, s / 5));
  }
  EXPECT_EQ(watch.share().pace, JoinPace::kNever);
  EXPECT_EQ(watch.furthest().done, Bytes(660));
  EXPECT_EQ(watch.furthest().at, Instant{} + seconds(67));
}

TEST(JoinShare, APauseOfTheLineIsNotItsSpeed) {
  JoinWatch watch = after(31, 60, 0);
  watch.heard(report(60, 0, 310, 60, 12));
  EXPECT_EQ(watch.share().pace, JoinPace::kMeasuring);
}

TEST(JoinShare, WithoutRoundsNothingIsInItsWay) {
  JoinWatch watch;
  for (std::int64_t s = 0; s <= 100; ++s) watch.heard(report(s, s, s * kLine, 600, 7));
  EXPECT_DOUBLE_EQ(watch.share().share, 0);
  EXPECT_DOUBLE_EQ(watch.share().left->seconds(), 90);
}

// The files of a checkpoint: only what is there is told.
TEST(JoinShare, ALoadFromACheckpointHasARateToo) {
  const JoinShare share = decide_join_share(report(0, 0, 0, 0, 3), report(20, 400, 0, 0, 3));
  EXPECT_DOUBLE_EQ(share.rate, 20);
  EXPECT_DOUBLE_EQ(share.left->seconds(), 30);
}

}  // namespace
}  // namespace shoal::coordinator
