// Rounds that are not all of one length, and the outer learning rate that an operator changes.
#include "coordinator/core/rounds/rounds.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/rounds_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(SpeedRounds, WeightsStayTokens) {
  StepPair rig(by_speed());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 2.0);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(5), 8.0);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  EXPECT_DOUBLE_EQ(plan.members[0].weight, 2 * plan.members[1].weight);
}

// Its pseudo-gradient is larger for the steps that are in it.
TEST(SpeedRounds, TheFasterOneIsNotClippedForItsSteps) {
  StepPair rig(by_speed());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 2.0, std::pow(4, 0.7));
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 8.0, std::pow(4, 0.7));
  rig.finish(1);
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(8), 2.0, std::pow(4, 0.7));
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(2), 2.0, 1);
  const ReducePlan plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  for (const ReduceMember& member : plan.members) EXPECT_NEAR(member.clip_factor, 1, 1e-9);
}

TEST(TimedRounds, EverybodyIsClosedWhenTheTimeIsOver) {
  StepPair rig(by_time());
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.to_step, Steps(200));  // no other bound
  rig.live(17);  // three of the twenty have passed
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a));
  rig.live(5);
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.a));
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  for (const EventRecord& event : rig.events) EXPECT_NE(event.kind, event_kind::kRoundStragglers);
}

TEST(TimedRounds, TheJobIsAsFarAsTheLongestContributionAndTheRestOfTheDataComesBack) {
  StepPair rig(by_time());
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
  StepPair rig(by_time());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(190), 20);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(190), 20);
  rig.finish(1);
  EXPECT_EQ(rig.next_of(rig.a).to_step, Steps(200));
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(10), 1);
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(10), 1);
  rig.finish(2);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
}

// ---- who comes while a round by time is open

// Round 2 is open, of which 20 s are to pass; in round 1 a took 30 steps, b 12.
struct OpenTimed : StepPair {
  OpenTimed() : StepPair(by_time()) {
    report_steps(a, rep_a, 1, Steps(30), 20);
    report_steps(b, rep_b, 1, Steps(12), 20);
    finish(1);
  }
  ReplicaId come() {
    c = join("late");
    const Assign assign = last<Assign>(c).value();
    say(c, Loaded{assign.replica, assign.source.key, {11, 11}, {9, 9}, 1000, "127.0.0.1:7199"});
    return rep_c = assign.replica;
  }
  bool trains_now() const {
    const auto there = with_assigned_data(state(), key(2));
    return std::ranges::count(there, rep_c) > 0;
  }
  ConnectionId c;
  ReplicaId rep_c;
};

TEST(TimedRounds, WhoLoadsTrainsTheRestOfTheRound) {
  OpenTimed rig;
  rig.live(8);
  rig.come();
  ASSERT_TRUE(rig.trains_now());
  const OpenRound order = rig.last<ToReplica<OpenRound>>(rig.c)->body;
  EXPECT_EQ(order.key, rig.key(2));
  // Half as many again as the fastest would in the 12 s that are left.
  const auto steps = (order.to_step - order.from_step).count();
  EXPECT_GE(steps, 20);
  EXPECT_LE(steps, 1 + 27);
  EXPECT_EQ(count_sequences(order.leases), 4 * steps);
}

TEST(TimedRounds, WhatItTrainedOfTheRoundCountsOnceAndTheRoundWaitsForNobody) {
  OpenTimed rig;
  rig.live(8);
  rig.come();
  for (int second = 0; second < 13; ++second) rig.live(1), rig.say(rig.c, Heartbeat{});
  ASSERT_TRUE(rig.last<ToReplica<CloseRound>>(rig.c)) << "with everybody";
  rig.report_steps(rig.a, rig.rep_a, 2, Steps(30), 20);
  rig.report_steps(rig.b, rig.rep_b, 2, Steps(12), 20);
  const DataLease own = rig.last<ToReplica<OpenRound>>(rig.c)->body.leases.at(0);
  rig.report_steps(rig.c, rig.rep_c, 2, Steps(5), 4, 1, {{own.first + 20, own.count - 20}});
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.c)->body;
  ASSERT_EQ(plan.members.size(), 3u);
  EXPECT_EQ(plan.members[2].weight, 5 * 128);
  const auto& part = rig.state().contributions.at({rig.key(2), rig.rep_c});
  EXPECT_EQ(count_sequences(part.leases), 5 * 4);
}

TEST(TimedRounds, WhoComesJustBeforeTheEndWaitsForTheNext) {
  OpenTimed rig;
  rig.live(18);  // the slower one takes 1.7 s for a step
  rig.come();
  EXPECT_FALSE(rig.trains_now());
}

TEST(TimedRounds, WhoComesWhenEverybodyWasClosedWaitsForTheNext) {
  OpenTimed rig;
  rig.live(21);
  ASSERT_TRUE(rig.last<ToReplica<CloseRound>>(rig.a));
  rig.come();
  EXPECT_FALSE(rig.trains_now());
}

// A step that changed nothing costs its tokens; its sequences were read.
TEST(Reports, ASkippedStepIsNoFault) {
  StepPair rig(job_of_steps());
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
  EXPECT_EQ(rig.state().agents.at(AgentId(1)).health_record.violations, 0);
}

// Nothing was usable: the round continues, for as long again.
TEST(TimedRounds, AfterAnAbortTheTimeBeginsAnew) {
  StepPair rig(by_time());
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

// One event per inner step would be all that people see of a ddp job.
TEST(DdpRounds, OnlyEvaluatedOnesAreEvents) {
  JobSpec spec = job_of_steps();
  spec.sync = default_spec(SyncAlgorithm::kDdp).sync;
  spec.eval.every_rounds = 3;
  StepPair rig(spec);
  for (RoundNumber round = 1; round <= 6; ++round) {
    rig.report_steps(rig.a, rig.rep_a, round, Steps(1), 1);
    rig.report_steps(rig.b, rig.rep_b, round, Steps(1), 1);
    rig.finish(round);
  }
  std::vector<RoundNumber> frozen, committed;
  for (const EventRecord& event : rig.events) {
    if (event.kind == event_kind::kRoundFrozen) frozen.push_back(event.round);
    if (event.kind == event_kind::kRoundCommitted) committed.push_back(event.round);
  }
  EXPECT_EQ(rig.job(rig.id).committed_round, 6);
  EXPECT_EQ(frozen, (std::vector<RoundNumber>{3, 6}));
  EXPECT_EQ(committed, (std::vector<RoundNumber>{3, 6}));
}

TEST(Streaming, EachRoundAveragesItsFragmentAndTheLastOneEverything) {
  StepPair rig(streamed(2, 0), {600, 400});
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.fragment, 1);
  using Plans = std::vector<std::pair<std::int32_t, std::int64_t>>;  // fragment, values
  Plans plans;
  for (RoundNumber round = 1; round <= 4; ++round) {
    pass(rig, round, 10);
    const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
    plans.emplace_back(plan.fragment, plan.value_count);
  }
  EXPECT_EQ(plans, (Plans{{1, 600}, {2, 400}, {1, 600}, {0, 1000}}));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
}

TEST(Streaming, AReplicaThatCutsOtherwiseIsRefused) {
  StepPair rig(streamed(2, 0), {1000});
  EXPECT_EQ(rig.state().replicas.find(rig.rep_a), nullptr);
}

// A stream that is lost delivers the old report after the abort, and the news of the abort later.
TEST(Reports, OneFromBeforeAnAbortIsNotTakenForTheNewOrder) {
  StepPair rig(job_of_steps());
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
  JobSpec spec = job_of_steps();
  change_sync(spec, [](SyncSpec& sync) { sync.clip = false; });
  StepPair rig(spec);
  rig.report(rig.a, rig.rep_a, rig.key(1), 4.0);
  rig.report(rig.b, rig.rep_b, rig.key(1), 2.0);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a).value().body;
  for (const ReduceMember& member : plan.members) {
    EXPECT_EQ(member.clip_factor, 1.0);
  }
}

}  // namespace
}  // namespace shoal::coordinator
