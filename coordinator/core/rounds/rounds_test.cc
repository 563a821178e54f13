// Rounds that are not all of one length, and the outer learning rate that an operator changes.
#include "coordinator/core/rounds/rounds.h"

#include <cmath>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

struct Pair : PairRig {
  using PairRig::PairRig;
  void report_steps(ConnectionId connection, ReplicaId replica, RoundNumber round, Steps steps,
                    double compute_s, double norm = 1, std::vector<DataLease> unused = {}) {
    RoundReport body;
    body.key = key(round);
    body.tokens = body.drawn = Tokens(steps.count() * 128);
    body.steps = steps;
    body.norm = norm;
    body.compute_s = compute_s;
    body.unused = std::move(unused);
    say(connection, FromReplica<RoundReport>{replica, body});
  }
  // Time passes while both agents are there.
  void live(int duration_s) {
    for (int passed = 0; passed < duration_s; ++passed) {
      wait(seconds(1));
      say(a, Heartbeat{}), say(b, Heartbeat{});
    }
  }
  Incarnation incarnation_of_b() const { return state().agents.at(AgentId(2)).incarnation; }
  OpenRound next_of(ConnectionId connection) {
    return last<ToReplica<CommitRound>>(connection)->body.next;
  }
};

JobSpec long_job() {
  JobSpec spec = small_job();
  spec.train.steps = Steps(200);
  return spec;
}

JobSpec by_speed() {
  JobSpec spec = long_job();
  spec.sync.balance = Balance::kSpeed;
  return spec;
}

TEST(SpeedRounds, TheSlowerReplicaGetsFewerStepsAndAShorterLease) {
  Pair rig(by_speed());
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

TEST(SpeedRounds, WeightsStayTokens) {
  Pair rig(by_speed());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 2.0);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(5), 8.0);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  EXPECT_DOUBLE_EQ(plan.members[0].weight, 2 * plan.members[1].weight);
}

// Its pseudo-gradient is larger for the steps that are in it.
TEST(SpeedRounds, TheFasterOneIsNotClippedForItsSteps) {
  Pair rig(by_speed());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 2.0, std::pow(4, 0.7));
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 8.0, std::pow(4, 0.7));
  rig.finish(1);
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(8), 2.0, std::pow(4, 0.7));
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(2), 2.0, 1);
  const ReducePlan plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  for (const ReduceMember& member : plan.members) EXPECT_NEAR(member.clip_factor, 1, 1e-9);
}

TEST(SpeedRounds, WhoComesBackHearsItsOwnNumberOfSteps) {
  Pair rig(by_speed());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 2.0);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 8.0);
  rig.finish(1);
  const OpenRound told = rig.next_of(rig.b);
  rig.restart();
  const auto again = rig.join("b", rig.incarnation_of_b(), {rig.rep_b});
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(again)->body, told);
}

JobSpec by_time() {
  JobSpec spec = long_job();
  spec.sync.every_s = 20;
  spec.checkpoint.every_rounds = 0;
  return with_derived_fields(spec);
}

TEST(TimedRounds, EverybodyIsClosedWhenTheTimeIsOver) {
  Pair rig(by_time());
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.to_step, Steps(200));  // no other bound
  rig.live(17);  // three of the twenty have passed
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a));
  rig.live(5);
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.a));
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  for (const EventRecord& event : rig.events) EXPECT_NE(event.kind, event_kind::kRoundStragglers);
}

TEST(TimedRounds, TheJobIsAsFarAsTheLongestContributionAndTheRestOfTheDataComesBack) {
  Pair rig(by_time());
  const DataLease first = rig.last<ToReplica<OpenRound>>(rig.a)->body.leases.at(0);
  EXPECT_EQ(first.count, 200 * 4);
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(30), 20);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(12), 20);
  rig.finish(1);
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(30));
  // Half as much again as the fastest did, out of what the first round left.
  EXPECT_EQ(rig.next_of(rig.a).to_step, Steps(30 + 46));
  EXPECT_EQ(rig.next_of(rig.b).to_step, Steps(30 + 46));
  EXPECT_EQ(rig.next_of(rig.a).leases.at(0), (DataLease{first.first + 30 * 4, 46 * 4}));
}

TEST(TimedRounds, TrainStepsStillBoundTheJob) {
  Pair rig(by_time());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(190), 20);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(190), 20);
  rig.finish(1);
  EXPECT_EQ(rig.next_of(rig.a).to_step, Steps(200));
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(10), 1);
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(10), 1);
  rig.finish(2);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kSealing);
}

// What a replica says that it will not train is given out at once, and first.
TEST(TimedRounds, WhatIsUnusedIsLeasedAgainInSeveralRuns) {
  Pair rig(by_time());
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
TEST(TimedRounds, OnlyOwnSequencesComeBack) {
  Pair rig(by_time());
  const DataLease b = rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0);
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(200), 20, 1, {b, {b.first + b.count, 8}});
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
}

// A step that changed nothing costs its tokens; its sequences were read.
TEST(Reports, ASkippedStepIsNoFault) {
  Pair rig(long_job());
  RoundReport skipped;
  skipped.key = rig.key(1);
  skipped.tokens = skipped.drawn = Tokens(9 * 128);
  skipped.steps = Steps(10);
  skipped.skipped = Steps(1);
  skipped.norm = 1;
  rig.say(rig.a, FromReplica<RoundReport>{rig.rep_a, skipped});
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 1);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  EXPECT_EQ(plan.members[0].weight, 9 * 128);
  rig.finish(1);
  EXPECT_EQ(rig.rounds_.at(rig.key(1)).tokens, Tokens(19 * 128));
  EXPECT_TRUE(rig.job(rig.id).returned.empty());
  EXPECT_EQ(rig.state().agents.at(AgentId(1)).standing.strikes, 0);
}

// Nothing was usable: the round goes on, for as long again.
TEST(TimedRounds, AfterAnAbortTheTimeBeginsAnew) {
  Pair rig(by_time());
  rig.live(22);
  ASSERT_TRUE(rig.last<ToReplica<CloseRound>>(rig.a));
  RoundReport broken;
  broken.key = rig.key(1);
  broken.steps = Steps(10);
  broken.tokens = broken.drawn = Tokens(1);
  broken.nonfinite = 1;
  rig.say(rig.a, FromReplica<RoundReport>{rig.rep_a, broken});
  rig.say(rig.b, FromReplica<RoundReport>{rig.rep_b, broken});
  ASSERT_TRUE(rig.last<ToReplica<AbortRound>>(rig.a));
  rig.sent.clear();
  rig.live(18);
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a));
  rig.live(4);
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.a));
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
}

TEST(TimedRounds, WhoMissedTheEndIsToldAgain) {
  Pair rig(by_time());
  rig.live(22);
  ASSERT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  rig.input(AgentHungUp{rig.b});
  const auto again = rig.join("b", rig.incarnation_of_b(), {rig.rep_b});
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(again));
}

TEST(OuterRate, TakesEffectAtTheNextSealAndEverybodyHearsIt) {
  Pair rig(long_job());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 1);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 1);  // sealed
  rig.input(ChangeJob{RequestId{9}, rig.id, 0.4});
  EXPECT_TRUE(rig.replies.back().result.ok());
  EXPECT_EQ(rig.events.back().kind, event_kind::kJobChanged);
  EXPECT_THAT(rig.events.back().message, testing::HasSubstr("0.9 -> 0.4"));
  rig.finish(1);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.outer_lr, OuterSpec{}.lr);
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(10), 1);
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(10), 1);
  rig.finish(2);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.outer_lr, 0.4);
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.b)->body.outer_lr, 0.4);
  EXPECT_EQ(rig.rounds_.at(rig.key(1)).outer_lr, OuterSpec{}.lr);
  EXPECT_EQ(rig.rounds_.at(rig.key(2)).outer_lr, 0.4);
  rig.restart();
  EXPECT_EQ(rig.job(rig.id).outer_lr, 0.4);
}

TEST(OuterRate, IsRefusedByTheRulesOfTheSpec) {
  Pair rig(long_job());
  for (const double rate : {0.0, -1.0, 11.0}) {
    rig.input(ChangeJob{RequestId{9}, rig.id, rate});
    EXPECT_EQ(rig.replies.back().result.error().code, Code::kValidation) << rate;
    EXPECT_EQ(rig.replies.back().fields.front().pointer, "/outer_lr");
  }
  rig.input(ChangeJob{RequestId{9}, JobId(99), 0.5});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kNotFound);
  rig.input(CancelJob{RequestId{8}, rig.id});
  rig.input(ChangeJob{RequestId{9}, rig.id, 0.5});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kConflict);
}

TEST(OuterRate, AnAlgorithmWithoutOneSaysSo) {
  for (const auto algorithm : {SyncAlgorithm::kLocalSgd, SyncAlgorithm::kDdp}) {
    JobSpec spec = long_job();
    spec.sync = default_spec(algorithm).sync;
    Pair rig(spec);
    rig.input(ChangeJob{RequestId{9}, rig.id, 0.4});
    EXPECT_EQ(rig.replies.back().result.error().code, Code::kValidation);
    EXPECT_THAT(rig.replies.back().fields.front().detail, testing::HasSubstr(to_string(algorithm)));
  }
}

// One event per inner step would be all that people see of a ddp job.
TEST(DdpRounds, OnlyEvaluatedOnesAreEvents) {
  JobSpec spec = long_job();
  spec.sync = default_spec(SyncAlgorithm::kDdp).sync;
  spec.eval.every_rounds = 3;
  Pair rig(spec);
  for (RoundNumber round = 1; round <= 6; ++round) {
    rig.report_steps(rig.a, rig.rep_a, round, Steps(1), 1);
    rig.report_steps(rig.b, rig.rep_b, round, Steps(1), 1);
    rig.finish(round);
  }
  std::vector<RoundNumber> sealed, committed;
  for (const EventRecord& event : rig.events) {
    if (event.kind == event_kind::kRoundSealed) sealed.push_back(event.round);
    if (event.kind == event_kind::kRoundCommitted) committed.push_back(event.round);
  }
  EXPECT_EQ(rig.job(rig.id).committed_round, 6);
  EXPECT_EQ(sealed, (std::vector<RoundNumber>{3, 6}));
  EXPECT_EQ(committed, (std::vector<RoundNumber>{3, 6}));
}

JobSpec streamed(std::int64_t fragments, std::int64_t overlap) {
  JobSpec spec = small_job();
  spec.model.layers = 2;
  spec.train.steps = Steps(40);
  spec.sync.every = Steps(10 * fragments);
  spec.sync.fragments = fragments;
  spec.sync.overlap_steps = Steps(overlap);
  return spec;
}

void pass(Pair& rig, RoundNumber round, std::int64_t steps) {
  rig.report_steps(rig.a, rig.rep_a, round, Steps(steps), 1);
  rig.report_steps(rig.b, rig.rep_b, round, Steps(steps), 1);
  rig.finish(round);
}

TEST(Streaming, EachRoundAveragesItsFragmentAndTheLastOneEverything) {
  Pair rig(streamed(2, 0), {600, 400});
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.fragment, 1);
  using Plans = std::vector<std::pair<std::int32_t, std::int64_t>>;  // fragment, values
  Plans plans;
  for (RoundNumber round = 1; round <= 4; ++round) {
    pass(rig, round, 10);
    const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
    plans.emplace_back(plan.fragment, plan.value_count);
  }
  EXPECT_EQ(plans, (Plans{{1, 600}, {2, 400}, {1, 600}, {0, 1000}}));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kSealing);
}

TEST(Streaming, AReplicaThatCutsOtherwiseIsRefused) {
  Pair rig(streamed(2, 0), {1000});
  EXPECT_EQ(rig.state().replicas.find(rig.rep_a), nullptr);
}

TEST(Streaming, ALeaseGoesOnBehindTheBoundaryAndItsTailCountsWithTheNextRound) {
  Pair rig(streamed(1, 3));
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

TEST(Streaming, WhoWasToldToStopKeepsItsTailOnly) {
  Pair rig(streamed(1, 3));
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

TEST(Streaming, TheTailOfALostReplicaComesBackWithItsLease) {
  Pair rig(streamed(1, 3));
  pass(rig, 1, 10);
  const auto leases = rig.state().contributions.at({rig.key(2), rig.rep_b}).leases;
  ASSERT_EQ(leases.size(), 2u);
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  std::int64_t returned = 0;
  for (const DataLease& lease : rig.job(rig.id).returned) returned += lease.count;
  EXPECT_EQ(returned, 13 * 4);
}

TEST(Streaming, WithoutAPartInTheResultALeaseBeginsAtTheBoundary) {
  Pair rig(streamed(1, 3));
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 1);
  rig.report_broken(rig.b, rig.rep_b, rig.key(1));
  rig.finish(1);
  EXPECT_EQ(rig.next_of(rig.a).leases.at(0).first, 10 * 4) << "its tail";
  EXPECT_EQ(count_sequences(rig.next_of(rig.a).leases), 13 * 4);
  EXPECT_EQ(count_sequences(rig.next_of(rig.b).leases), 13 * 4);
}

// A stream that is lost delivers the old report after the abort, and the news of the abort later.
TEST(Reports, OneFromBeforeAnAbortIsNotTakenForTheNewOrder) {
  Pair rig(long_job());
  RoundReport old;
  old.key = rig.key(1);
  old.tokens = old.drawn = Tokens(1280);
  old.steps = Steps(10);
  old.nonfinite = 1;
  rig.say(rig.a, FromReplica<RoundReport>{rig.rep_a, old});
  rig.say(rig.b, FromReplica<RoundReport>{rig.rep_b, old});
  ASSERT_EQ(rig.last<ToReplica<AbortRound>>(rig.b)->body.next.aborts, 1);
  const auto contribution = [&] { return rig.state().contributions.at({rig.key(1), rig.rep_b}); };
  rig.say(rig.b, FromReplica<RoundReport>{rig.rep_b, old});
  EXPECT_EQ(contribution().state, ContributionState::kTraining);
  RoundReport fresh = old;
  fresh.aborts = 1;
  fresh.steps = Steps(20);
  fresh.nonfinite = 0;
  rig.say(rig.b, FromReplica<RoundReport>{rig.rep_b, fresh});
  EXPECT_EQ(contribution().state, ContributionState::kReported);
  EXPECT_EQ(contribution().report.steps, Steps(20));
}

TEST(Clip, CanBeSwitchedOff) {
  JobSpec spec = long_job();
  spec.sync.clip = false;
  Pair rig(spec);
  rig.report(rig.a, rig.rep_a, rig.key(1), 4.0);
  rig.report(rig.b, rig.rep_b, rig.key(1), 2.0);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a).value().body;
  for (const ReduceMember& member : plan.members) {
    EXPECT_EQ(member.clip_factor, 1.0);
  }
}

}  // namespace
}  // namespace shoal::coordinator
