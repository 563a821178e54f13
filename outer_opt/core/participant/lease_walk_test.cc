#include "outer_opt/core/participant/lease_walk.h"

#include <vector>

#include <gtest/gtest.h>

#include "job/job_options_test_util.h"

namespace shoal::outer_opt {
namespace {

using Next = LeaseWalk::Next;

JobSpec job(std::int64_t overlap) {
  JobSpec spec;
  spec.train.steps = Steps(100);
  spec.train.batch = 2;
  change_sync(spec, [&](SyncOptions& sync) {
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
std::vector<std::int64_t> train(LeaseWalk& walk) {
  std::vector<std::int64_t> taken;
  while (walk.next() == Next::kStep) taken.push_back(walk.take_step().first);
  return taken;
}

TEST(LeaseWalk, WithoutOverlapALeaseEndsAtItsBoundary) {
  LeaseWalk walk(job(0));
  EXPECT_EQ(walk.next(), Next::kStand);
  walk.open(order(1, 0, 3, {10, 6}));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{10, 12, 14}));
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  EXPECT_EQ(walk.next(), Next::kStand);
  EXPECT_FALSE(walk.adopts_later());
  walk.committed(Settled::kCounted);
  EXPECT_EQ(walk.next(), Next::kStand);
  walk.open(order(2, 3, 4, {20, 2}));
  EXPECT_EQ(walk.at(), Steps(3));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{20}));
}

TEST(LeaseWalk, ALeaseMayBeSeveralRuns) {
  LeaseWalk walk(job(0));
  walk.open(order(1, 0, 4, {{30, 2}, {10, 4}, {50, 2}}));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{30, 10, 12, 50}));
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  EXPECT_TRUE(walk.unused().empty());
}

// The coordinator has heard of no report: all that it leased is in the order that it gives now.
TEST(LeaseWalk, AnAbortIsTrainedOnAndNothingTwice) {
  LeaseWalk walk(job(0));
  walk.open(order(1, 0, 3, {10, 6}));
  walk.take_step();
  walk.open(order(1, 3, 5, {{10, 6}, {30, 4}}));
  EXPECT_EQ(walk.at(), Steps(1));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{12, 14, 30, 32}));
  EXPECT_EQ(walk.next(), Next::kBoundary);
}

// It has: what was unused then is somebody else's now, or its own again.
TEST(LeaseWalk, WhatIsUnusedIsTheCoordinators) {
  LeaseWalk walk(job(0));
  walk.open(order(1, 0, 4, {10, 8}));
  walk.take_step();
  walk.stop();
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  EXPECT_EQ(walk.unused(), (LeaseRuns{{12, 6}}));
  walk.open(order(1, 4, 6, {{14, 2}, {30, 2}}));
  EXPECT_EQ(walk.at(), Steps(4));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{14, 30}));
  walk.reported();
  EXPECT_TRUE(walk.unused().empty());
}

TEST(LeaseWalk, WithOverlapTheTailIsNotUnused) {
  LeaseWalk walk(job(2));
  walk.open(order(1, 0, 10, {0, 24}));
  for (int i = 0; i < 4; ++i) walk.take_step();
  walk.stop();
  walk.reported();
  EXPECT_EQ(walk.unused(), (LeaseRuns{{12, 12}}));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{8, 10}));
}

TEST(LeaseWalk, GoesOnForTheOverlapAndAdoptsExactlyThere) {
  LeaseWalk walk(job(2));
  walk.open(order(1, 0, 10, {0, 24}));  // the first lease: 10 steps and 2 ahead
  EXPECT_EQ(train(walk).size(), 10u);
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{20, 22}));
  EXPECT_EQ(walk.next(), Next::kStand);  // the commit is late
  walk.committed(Settled::kCounted);
  walk.open(order(2, 10, 20, {20, 24}));
  EXPECT_EQ(walk.next(), Next::kAdopt);
  EXPECT_EQ(walk.ahead(), Steps(2));
  EXPECT_EQ(walk.at(), Steps(12));
  walk.adopted();
  EXPECT_EQ(train(walk).size(), 8u);
  EXPECT_EQ(walk.next(), Next::kBoundary);
  EXPECT_EQ(walk.at(), Steps(20));
}

TEST(LeaseWalk, AnEarlyCommitWaitsForItsStep) {
  LeaseWalk walk(job(3));
  walk.open(order(1, 0, 10, {0, 26}));
  train(walk);
  walk.reported();
  walk.take_step();
  walk.committed(Settled::kCounted);
  walk.open(order(2, 10, 20, {20, 26}));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{22, 24}));
  EXPECT_EQ(walk.next(), Next::kAdopt);
  walk.adopted();
  EXPECT_EQ(walk.take_step().first, 26);
}

TEST(LeaseWalk, AnAbortGoesOnWhereItStands) {
  LeaseWalk walk(job(3));
  walk.open(order(1, 0, 10, {0, 26}));
  train(walk);
  walk.reported();
  walk.take_step();
  walk.open(order(1, 10, 20, {20, 26}));
  const auto taken = train(walk);
  EXPECT_EQ(taken.front(), 22);
  EXPECT_EQ(taken.size(), 9u);  // the boundary is 20
  walk.reported();
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{40, 42, 44}));
}

TEST(LeaseWalk, WithoutAPartInTheResultItBeginsAnew) {
  LeaseWalk walk(job(3));
  walk.open(order(1, 0, 10, {0, 26}));
  train(walk);
  walk.reported();
  walk.take_step();
  walk.committed(Settled::kDropped);
  EXPECT_FALSE(walk.adopts_later());
  EXPECT_EQ(walk.ahead(), Steps(0));
  walk.open(order(2, 10, 20, {40, 26}));
  EXPECT_EQ(walk.at(), Steps(10));
  EXPECT_EQ(walk.take_step().first, 40);
}

TEST(LeaseWalk, ToldToStopItAdoptsFirstAndKeepsOnlyItsTail) {
  LeaseWalk walk(job(2));
  walk.open(order(1, 0, 10, {0, 24}));
  for (int i = 0; i < 4; ++i) walk.take_step();
  walk.stop();
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{8, 10}));
  walk.committed(Settled::kCounted);
  walk.open(order(2, 10, 20, {{8, 4}, {24, 20}}));
  EXPECT_EQ(walk.at(), Steps(12));  // on the schedule again
  walk.stop();
  EXPECT_EQ(walk.next(), Next::kAdopt);
  walk.adopted();
  EXPECT_EQ(walk.next(), Next::kBoundary);
}

// It stopped at step 4 of 10 and has one of its two steps ahead when the commit comes: the schedule
// stands behind the boundary, one step of the tail is left.
TEST(LeaseWalk, AnEarlyCommitPutsOneThatStoppedOnTheSchedule) {
  LeaseWalk walk(job(2));
  walk.open(order(1, 0, 10, {0, 24}));
  for (int i = 0; i < 4; ++i) walk.take_step();
  walk.stop();
  walk.reported();
  walk.take_step();
  walk.committed(Settled::kCounted);
  walk.open(order(2, 10, 20, {{8, 4}, {24, 20}}));
  EXPECT_EQ(walk.at(), Steps(11));
  EXPECT_EQ(walk.take_step().first, 10);
  EXPECT_EQ(walk.next(), Next::kAdopt);
  walk.adopted();
  EXPECT_EQ(train(walk).size(), 8u) << "to its boundary; the stop was of the round before";
  EXPECT_EQ(walk.at(), Steps(20));
}

TEST(LeaseWalk, WhoIsToldToStopAdoptsBeforeItsTailIsOver) {
  LeaseWalk walk(job(2));
  walk.open(order(1, 0, 10, {0, 24}));
  train(walk);
  walk.reported();
  walk.committed(Settled::kCounted);
  walk.open(order(2, 10, 20, {20, 24}));
  EXPECT_EQ(walk.next(), Next::kStep) << "two steps behind the boundary";
  walk.stop();
  EXPECT_EQ(walk.next(), Next::kAdopt);
}

TEST(LeaseWalk, TheLastRoundHasNothingBehindIt) {
  LeaseWalk walk(job(3));
  walk.open(order(9, 90, 98, {0, 20}));
  EXPECT_EQ(train(walk).size(), 8u);
  walk.reported();
  EXPECT_EQ(train(walk).size(), 2u);
  walk.committed(Settled::kCounted);
  walk.open(order(10, 98, 100, {16, 4}));  // its steps were trained ahead
  EXPECT_EQ(walk.next(), Next::kAdopt);
  walk.adopted();
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  EXPECT_FALSE(walk.adopts_later());
}

JobSpec async_job() {
  JobSpec spec = job(0);
  change_sync(spec, [](SyncOptions& sync) { sync.algorithm = SyncAlgorithm::kAsync; });
  return spec;
}

TEST(LeaseWalk, ACommitWithoutItsReportLeavesItInItsLease) {
  LeaseWalk walk(async_job());
  walk.open(order(1, 0, 10, {0, 20}));
  for (int step = 0; step < 4; ++step) walk.take_step();
  walk.committed(Settled::kKept);
  EXPECT_EQ(walk.next(), Next::kStep);
  walk.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(walk.at(), Steps(4));
  EXPECT_EQ(train(walk), (std::vector<std::int64_t>{8, 10, 12, 14, 16, 18}));
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  walk.committed(Settled::kCounted);
  walk.open(order(3, 20, 30, {40, 20}));
  EXPECT_EQ(walk.at(), Steps(20));
  EXPECT_EQ(train(walk).front(), 40);
}

TEST(LeaseWalk, ABoundaryThatNobodyCountedIsOneAgain) {
  LeaseWalk walk(async_job());
  walk.open(order(1, 0, 10, {0, 20}));
  train(walk);
  walk.reported();
  EXPECT_EQ(walk.next(), Next::kStand);
  walk.committed(Settled::kKept);
  EXPECT_EQ(walk.next(), Next::kStand);
  walk.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(walk.next(), Next::kBoundary);
}

// The ledger may give back to a replica what it was told to drop.
TEST(LeaseWalk, TheSameLeaseAfterADropBeginsAnew) {
  LeaseWalk walk(async_job());
  walk.open(order(1, 0, 10, {0, 20}));
  train(walk);
  walk.reported();
  walk.committed(Settled::kDropped);
  walk.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(train(walk).size(), 10u);
}

TEST(LeaseWalk, AStopInAnAsynchronousRoundIsOverWithIt) {
  LeaseWalk walk(async_job());
  walk.open(order(1, 0, 10, {0, 20}));
  walk.take_step();
  walk.stop();
  EXPECT_EQ(walk.next(), Next::kBoundary);
  walk.reported();
  walk.committed(Settled::kKept);
  walk.open(order(2, 5, 15, {0, 20}));
  EXPECT_EQ(train(walk).size(), 9u);
}

}  // namespace
}  // namespace shoal::outer_opt
