// What each replica trains: round lengths by speed, and leases granted, kept and returned.
#include "coordinator/core/rounds/orders.h"

#include <gmock/gmock.h>

#include "coordinator/core/rounds_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Orders, TheSlowerReplicaGetsFewerStepsAndAShorterLease) {
  StepPair rig(by_speed());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 2.0);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 8.0);
  rig.finish(1);
  EXPECT_EQ(rig.next_of(rig.a).to_step, Steps(20));
  EXPECT_EQ(rig.next_of(rig.a).leases.at(0).count, 40);
  EXPECT_EQ(rig.next_of(rig.b).from_step, Steps(10));
  EXPECT_EQ(rig.next_of(rig.b).to_step, Steps(12));  // floor(10 / 4)
  EXPECT_EQ(rig.next_of(rig.b).leases.at(0).count, 8);
  // The round is as long as the fastest one's part of it.
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(10), 2.0);
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(2), 1.6);
  rig.finish(2);
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(20));
  EXPECT_EQ(rig.next_of(rig.b).from_step, Steps(20));
}

// What a replica says that it will not train is given out at once, and first.
TEST(Orders, WhatIsUnusedIsLeasedAgainInSeveralRuns) {
  StepPair rig(by_time());
  const DataLease a = rig.last<ToReplica<OpenRound>>(rig.a)->body.leases.at(0);
  const DataLease b = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  const auto rest = [](const DataLease& lease, std::int64_t steps) {
    return std::vector<DataLease>{{lease.first + 4 * steps, lease.count - 4 * steps}};
  };
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(190), 20, 1, rest(a, 190));
  EXPECT_EQ(rig.job(rig.id).returned, rest(a, 190));
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(100), 20, 1, rest(b, 100));
  rig.finish(1);
  const std::vector<DataLease> next = rig.next_of(rig.a).leases;
  EXPECT_EQ(next.at(0), rest(a, 190).at(0));
  EXPECT_EQ(count_sequences(next), 10 * 4);
  EXPECT_EQ(rig.next_of(rig.b).leases.at(0).first, b.first + 100 * 4);
}

// A replica cannot give back what it was not leased: it may be somebody else's.
TEST(Orders, OnlyOwnSequencesComeBack) {
  StepPair rig(by_time());
  const DataLease b = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(200), 20, 1, {b, {b.first + b.count, 8}});
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
}

TEST(Orders, ALeaseGoesOnBehindTheBoundaryAndItsTailCountsWithTheNextRound) {
  StepPair rig(streamed(1, 3));
  const DataLease first = rig.last<ToReplica<OpenRound>>(rig.a)->body.leases.at(0);
  EXPECT_EQ(first.count, 13 * 4);
  pass(rig, 1, 10);
  EXPECT_EQ(rig.next_of(rig.a).from_step, Steps(10));
  EXPECT_EQ(rig.next_of(rig.a).to_step, Steps(20));
  EXPECT_EQ(count_sequences(rig.next_of(rig.a).leases), 13 * 4);
  const auto& next = rig.state().contributions.at({rig.key(2), rig.rep_a});
  EXPECT_EQ(next.leases.front(), (DataLease{first.first + 40, 12}));
  EXPECT_EQ(next.leases.size(), 2u);
  pass(rig, 2, 10);
  pass(rig, 3, 10);
  EXPECT_EQ(count_sequences(rig.next_of(rig.a).leases), 10 * 4);  // nothing behind the end
  pass(rig, 4, 10);
  EXPECT_EQ(rig.job(rig.id).next_sequence, 2 * 40 * 4);
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
}

TEST(Orders, WhoWasToldToStopKeepsItsTailOnly) {
  StepPair rig(streamed(1, 3));
  const DataLease first = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 1);
  const DataLease unused{first.first + 7 * 4, 6 * 4};
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(4), 1, 1, {unused});
  rig.finish(1);
  const auto& next = rig.state().contributions.at({rig.key(2), rig.rep_b});
  EXPECT_EQ(next.leases.front(), (DataLease{first.first + 4 * 4, 12}));
  // The six steps that it did not take are given out again.
  EXPECT_EQ(rig.next_of(rig.a).leases.at(1), (DataLease{unused.first, 10 * 4}));
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
}

TEST(Orders, TheTailOfALostReplicaComesBackWithItsLease) {
  StepPair rig(streamed(1, 3));
  pass(rig, 1, 10);
  const auto leases = rig.state().contributions.at({rig.key(2), rig.rep_b}).leases;
  ASSERT_EQ(leases.size(), 2u);
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  std::int64_t returned = 0;
  for (const DataLease& lease : rig.job(rig.id).returned) returned += lease.count;
  EXPECT_EQ(returned, 13 * 4);
}

TEST(Orders, WithoutAPartInTheResultALeaseBeginsAtTheBoundary) {
  StepPair rig(streamed(1, 3));
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 1);
  rig.report_broken(rig.b, rig.rep_b, rig.key(1));
  rig.finish(1);
  EXPECT_EQ(rig.next_of(rig.a).leases.at(0).first, 10 * 4) << "its tail";
  EXPECT_EQ(count_sequences(rig.next_of(rig.a).leases), 13 * 4);
  EXPECT_EQ(count_sequences(rig.next_of(rig.b).leases), 13 * 4);
}

}  // namespace
}  // namespace shoal::coordinator
