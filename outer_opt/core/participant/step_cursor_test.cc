#include "outer_opt/core/participant/step_cursor.h"

#include <vector>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"

namespace shoal::outer_opt {
namespace {

using Next = StepCursor::Next;

JobSpec job(std::int64_t overlap) {
  JobSpec spec;
  spec.train.steps = Steps(100);
  spec.train.batch = 2;
  change_sync(spec, [&](SyncSpec& sync) {
    sync.every = Steps(10);
    sync.overlap_steps = Steps(overlap);
  });
  return spec;
}

OpenRound order(RoundNumber round, std::int64_t from, std::int64_t to, LeaseRuns leases) {
  return {{JobId(1), 0, round}, Steps(from), Steps(to), std::move(leases), 0};
}
OpenRound order(RoundNumber round, std::int64_t from, std::int64_t to, DataLease lease) {
  return order(round, from, to, lease.count > 0 ? LeaseRuns{lease} : LeaseRuns{});
}

// Trains until something else is due; returns the first sequences of the steps taken.
std::vector<std::int64_t> train(StepCursor& cursor) {
  std::vector<std::int64_t> taken;
  while (cursor.next() == Next::kStep) taken.push_back(cursor.take_step().first);
  return taken;
}

TEST(StepCursor, WithoutOverlapALeaseEndsAtItsBoundary) {
  StepCursor cursor(job(0));
  EXPECT_EQ(cursor.next(), Next::kStand);
  cursor.open(order(1, 0, 3, {10, 6}));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{10, 12, 14}));
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  EXPECT_EQ(cursor.next(), Next::kStand);
  EXPECT_FALSE(cursor.adopts_later());
  cursor.committed(CommitOutcome::kCounted);
  EXPECT_EQ(cursor.next(), Next::kStand);
  cursor.open(order(2, 3, 4, {20, 2}));
  EXPECT_EQ(cursor.at(), Steps(3));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{20}));
}

TEST(StepCursor, ALeaseMayBeSeveralRuns) {
  StepCursor cursor(job(0));
  cursor.open(order(1, 0, 4, {{30, 2}, {10, 4}, {50, 2}}));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{30, 10, 12, 50}));
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  EXPECT_TRUE(cursor.unused().empty());
}

// The coordinator has heard of no report: all that it leased is in the order that it gives now.
TEST(StepCursor, AnAbortIsTrainedOnAndNothingTwice) {
  StepCursor cursor(job(0));
  cursor.open(order(1, 0, 3, {10, 6}));
  cursor.take_step();
  cursor.open(order(1, 3, 5, {{10, 6}, {30, 4}}));
  EXPECT_EQ(cursor.at(), Steps(1));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{12, 14, 30, 32}));
  EXPECT_EQ(cursor.next(), Next::kBoundary);
}

// It has: what was unused then is somebody else's now, or its own again.
TEST(StepCursor, WhatIsUnusedIsTheCoordinators) {
  StepCursor cursor(job(0));
  cursor.open(order(1, 0, 4, {10, 8}));
  cursor.take_step();
  cursor.stop();
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  EXPECT_EQ(cursor.unused(), (LeaseRuns{{12, 6}}));
  cursor.open(order(1, 4, 6, {{14, 2}, {30, 2}}));
  EXPECT_EQ(cursor.at(), Steps(4));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{14, 30}));
  cursor.reported();
  EXPECT_TRUE(cursor.unused().empty());
}

TEST(StepCursor, WithOverlapTheTailIsNotUnused) {
  StepCursor cursor(job(2));
  cursor.open(order(1, 0, 10, {0, 24}));
  for (int i = 0; i < 4; ++i) cursor.take_step();
  cursor.stop();
  cursor.reported();
  EXPECT_EQ(cursor.unused(), (LeaseRuns{{12, 12}}));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{8, 10}));
}

TEST(StepCursor, GoesOnForTheOverlapAndAdoptsExactlyThere) {
  StepCursor cursor(job(2));
  cursor.open(order(1, 0, 10, {0, 24}));  // the first lease: 10 steps and 2 ahead
  EXPECT_EQ(train(cursor).size(), 10u);
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{20, 22}));
  EXPECT_EQ(cursor.next(), Next::kStand);  // the commit is late
  cursor.committed(CommitOutcome::kCounted);
  cursor.open(order(2, 10, 20, {20, 24}));
  EXPECT_EQ(cursor.next(), Next::kAdopt);
  EXPECT_EQ(cursor.ahead(), Steps(2));
  EXPECT_EQ(cursor.at(), Steps(12));
  cursor.adopted();
  EXPECT_EQ(train(cursor).size(), 8u);
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  EXPECT_EQ(cursor.at(), Steps(20));
}

TEST(StepCursor, AnEarlyCommitWaitsForItsStep) {
  StepCursor cursor(job(3));
  cursor.open(order(1, 0, 10, {0, 26}));
  train(cursor);
  cursor.reported();
  cursor.take_step();
  cursor.committed(CommitOutcome::kCounted);
  cursor.open(order(2, 10, 20, {20, 26}));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{22, 24}));
  EXPECT_EQ(cursor.next(), Next::kAdopt);
  cursor.adopted();
  EXPECT_EQ(cursor.take_step().first, 26);
}

TEST(StepCursor, AnAbortGoesOnWhereItStands) {
  StepCursor cursor(job(3));
  cursor.open(order(1, 0, 10, {0, 26}));
  train(cursor);
  cursor.reported();
  cursor.take_step();
  cursor.open(order(1, 10, 20, {20, 26}));
  const auto taken = train(cursor);
  EXPECT_EQ(taken.front(), 22);
  EXPECT_EQ(taken.size(), 9u);  // the boundary is 20
  cursor.reported();
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{40, 42, 44}));
}

TEST(StepCursor, WithoutAPartInTheResultItBeginsAnew) {
  StepCursor cursor(job(3));
  cursor.open(order(1, 0, 10, {0, 26}));
  train(cursor);
  cursor.reported();
  cursor.take_step();
  cursor.committed(CommitOutcome::kDropped);
  EXPECT_FALSE(cursor.adopts_later());
  EXPECT_EQ(cursor.ahead(), Steps(0));
  cursor.open(order(2, 10, 20, {40, 26}));
  EXPECT_EQ(cursor.at(), Steps(10));
  EXPECT_EQ(cursor.take_step().first, 40);
}

TEST(StepCursor, ToldToStopItAdoptsFirstAndKeepsOnlyItsTail) {
  StepCursor cursor(job(2));
  cursor.open(order(1, 0, 10, {0, 24}));
  for (int i = 0; i < 4; ++i) cursor.take_step();
  cursor.stop();
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{8, 10}));
  cursor.committed(CommitOutcome::kCounted);
  cursor.open(order(2, 10, 20, {{8, 4}, {24, 20}}));
  EXPECT_EQ(cursor.at(), Steps(12));  // on the schedule again
  cursor.stop();
  EXPECT_EQ(cursor.next(), Next::kAdopt);
  cursor.adopted();
  EXPECT_EQ(cursor.next(), Next::kBoundary);
}

// It stopped at step 4 of 10 and has one of its two steps ahead when the commit comes: the schedule
// stands behind the boundary, one step of the tail is left.
TEST(StepCursor, AnEarlyCommitPutsOneThatStoppedOnTheSchedule) {
  StepCursor cursor(job(2));
  cursor.open(order(1, 0, 10, {0, 24}));
  for (int i = 0; i < 4; ++i) cursor.take_step();
  cursor.stop();
  cursor.reported();
  cursor.take_step();
  cursor.committed(CommitOutcome::kCounted);
  cursor.open(order(2, 10, 20, {{8, 4}, {24, 20}}));
  EXPECT_EQ(cursor.at(), Steps(11));
  EXPECT_EQ(cursor.take_step().first, 10);
  EXPECT_EQ(cursor.next(), Next::kAdopt);
  cursor.adopted();
  EXPECT_EQ(train(cursor).size(), 8u) << "to its boundary; the stop was of the round before";
  EXPECT_EQ(cursor.at(), Steps(20));
}

TEST(StepCursor, WhoIsToldToStopAdoptsBeforeItsTailIsOver) {
  StepCursor cursor(job(2));
  cursor.open(order(1, 0, 10, {0, 24}));
  train(cursor);
  cursor.reported();
  cursor.committed(CommitOutcome::kCounted);
  cursor.open(order(2, 10, 20, {20, 24}));
  EXPECT_EQ(cursor.next(), Next::kStep) << "two steps behind the boundary";
  cursor.stop();
  EXPECT_EQ(cursor.next(), Next::kAdopt);
}

TEST(StepCursor, TheLastRoundHasNothingBehindIt) {
  StepCursor cursor(job(3));
  cursor.open(order(9, 90, 98, {0, 20}));
  EXPECT_EQ(train(cursor).size(), 8u);
  cursor.reported();
  EXPECT_EQ(train(cursor).size(), 2u);
  cursor.committed(CommitOutcome::kCounted);
  cursor.open(order(10, 98, 100, {16, 4}));  // its steps were trained ahead
  EXPECT_EQ(cursor.next(), Next::kAdopt);
  cursor.adopted();
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  EXPECT_FALSE(cursor.adopts_later());
}

JobSpec async_job() {
  JobSpec spec = job(0);
  change_sync(spec, [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kAsync; });
  return spec;
}

TEST(StepCursor, ACommitWithoutItsReportLeavesItInItsLease) {
  StepCursor cursor(async_job());
  cursor.open(order(1, 0, 10, {0, 20}));
  for (int step = 0; step < 4; ++step) cursor.take_step();
  cursor.committed(CommitOutcome::kKept);
  EXPECT_EQ(cursor.next(), Next::kStep);
  cursor.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(cursor.at(), Steps(4));
  EXPECT_EQ(train(cursor), (std::vector<std::int64_t>{8, 10, 12, 14, 16, 18}));
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  cursor.committed(CommitOutcome::kCounted);
  cursor.open(order(3, 20, 30, {40, 20}));
  EXPECT_EQ(cursor.at(), Steps(20));
  EXPECT_EQ(train(cursor).front(), 40);
}

TEST(StepCursor, ABoundaryThatNobodyCountedIsOneAgain) {
  StepCursor cursor(async_job());
  cursor.open(order(1, 0, 10, {0, 20}));
  train(cursor);
  cursor.reported();
  EXPECT_EQ(cursor.next(), Next::kStand);
  cursor.committed(CommitOutcome::kKept);
  EXPECT_EQ(cursor.next(), Next::kStand);
  cursor.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(cursor.next(), Next::kBoundary);
}

// The ledger may give back to a replica what it was told to drop.
TEST(StepCursor, TheSameLeaseAfterADropBeginsAnew) {
  StepCursor cursor(async_job());
  cursor.open(order(1, 0, 10, {0, 20}));
  train(cursor);
  cursor.reported();
  cursor.committed(CommitOutcome::kDropped);
  cursor.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(train(cursor).size(), 10u);
}

TEST(StepCursor, AStopInAnAsynchronousRoundIsOverWithIt) {
  StepCursor cursor(async_job());
  cursor.open(order(1, 0, 10, {0, 20}));
  cursor.take_step();
  cursor.stop();
  EXPECT_EQ(cursor.next(), Next::kBoundary);
  cursor.reported();
  cursor.committed(CommitOutcome::kKept);
  cursor.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(train(cursor).size(), 9u);
}

}  // namespace
}  // namespace shoal::outer_opt
