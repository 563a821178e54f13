// Quarantine, memory that was not there, and how long an agent stays.
#include "coordinator/core/state/health_record.h"

#include <limits>

#include "coordinator/core/coordinator_test_util.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

constexpr Instant kStart{1'700'000'000'000'000'000};

HealthRecord after_violations(HealthRecord health_record, int count, Instant at) {
  for (int i = 0; i < count; ++i) {
    health_record = after_violation(health_record, RejectReason::kNonFinite, at, Options());
  }
  return health_record;
}

// ---- the rules

TEST(HealthRecord, TheThirdViolationWithinTheWindowIsOneTooMany) {
  HealthRecord health_record = after_violations({}, 2, kStart);
  EXPECT_EQ(health_record.quarantined_until, Instant());
  health_record = after_violations(health_record, 1, kStart + seconds(3599));
  EXPECT_EQ(health_record.quarantined_until, kStart + seconds(3599 + 600));
  EXPECT_EQ(health_record.violation_reason, RejectReason::kNonFinite);
  const HealthRecord late =
      after_violations(after_violations({}, 2, kStart), 1, kStart + seconds(3600));
  EXPECT_EQ(late.quarantined_until, Instant());
  EXPECT_EQ(late.violations, 1);
}

TEST(HealthRecord, AfterAQuarantineViolationsAreCountedAnew) {
  const HealthRecord before = after_violations({}, 3, kStart);
  const HealthRecord after = after_violations(before, 2, kStart + seconds(1));
  EXPECT_EQ(after.quarantined_until, before.quarantined_until);
  EXPECT_EQ(after.quarantines, 1);
}

TEST(HealthRecord, QuarantinesGrowToACapAndAreForgotten) {
  HealthRecord health_record;
  Instant now = kStart;
  for (const std::int64_t wanted : {600, 1200, 2400, 4800}) {
    health_record = after_violations(health_record, 3, now);
    EXPECT_EQ(health_record.quarantined_until, now + seconds(wanted));
    now = now + seconds(7200);
  }
  for (int i = 0; i < 40; ++i) health_record = after_violations(health_record, 3, now);
  EXPECT_EQ(health_record.quarantined_until, now + seconds(86'400));
  health_record = after_violations(health_record, 3, now + seconds(7 * 86'400));
  EXPECT_EQ(health_record.quarantined_until, now + seconds(7 * 86'400 + 600));
}

TEST(HealthRecord, OnlyWhatAnAgentDoesWrongIsAViolation) {
  EXPECT_TRUE(is_violation(RejectReason::kNonFinite));
  EXPECT_TRUE(is_violation(RejectReason::kOutlier));
  for (const auto fair : {RejectReason::kNone, RejectReason::kNoTokens, RejectReason::kNotReported,
                          RejectReason::kJoiner}) {
    EXPECT_FALSE(is_violation(fair));
  }
}

TEST(HealthRecord, ADeviceHasLessThanWhatItCouldNotHold) {
  AgentRecord agent;
  const Device device{.index = 1, .memory = Bytes(1000)};
  EXPECT_EQ(believed_memory(agent, device), Bytes(1000));
  remember_refusal(agent, 1, Bytes(800), kStart);
  remember_refusal(agent, 1, Bytes(900), kStart);
  remember_refusal(agent, 0, Bytes(10), kStart);
  EXPECT_EQ(believed_memory(agent, device), Bytes(799));
  EXPECT_EQ(agent.refusals.size(), 2u);
  remember_refusal(agent, 1, Bytes(700), kStart + seconds(5));
  EXPECT_EQ(believed_memory(agent, device), Bytes(699)) << "it needs even less to fail";
  const Device third{.index = 2, .memory = Bytes(500)};
  EXPECT_EQ(believed_memory(agent, third), Bytes(500)) << "nothing is known against this one";
}

TEST(HealthRecord, AvailabilityIsTheShareOfALife) {
  Uptime steady{.since = kStart}, fickle{.since = kStart};
  EXPECT_EQ(expected_life(steady, kStart), seconds(6 * 3600)) << "of a new one";
  Instant now = kStart;
  for (int i = 0; i < 20; ++i) {
    now = now + seconds(1800);
    end_stay(fickle, now);
    end_stay(fickle, now);  // it is gone already
    fickle.since = now;
  }
  EXPECT_EQ(fickle.losses, 20);
  EXPECT_EQ(fickle.present_s, 36'000);
  EXPECT_NEAR(expected_life(fickle, now).seconds(), (36'000 + 21'600) / 21.0, 1);
  EXPECT_GT(availability(steady, now), 0.99);
  EXPECT_LT(availability(fickle, now), 0.91);
}

// ---- in the coordinator

// Four replicas of one stage, in training.
struct Four : Rig {
  Four() {
    JobSpec spec = small_job();
    spec.train.steps = Steps(1000);
    adopt(spec);
    for (const char* name : {"a", "b", "c", "d"}) agents.push_back(join(name));
    wait(seconds(3));
    for (const auto agent : agents) load(agent);
    wait(seconds(3));
  }
  ReplicaId replica(ConnectionId agent) { return last<Assign>(agent)->replica; }
  const AgentRecord& record(int index) {
    return state().agents.at(AgentId(static_cast<std::uint64_t>(index) + 1));
  }
  void report_one(ConnectionId agent, RoundKey key, double norm, std::int64_t nonfinite) {
    RoundReport body{.key = key, .tokens = Tokens(1280), .steps = Steps(10), .train_loss = 2};
    body.drawn = body.tokens;
    body.norm = norm;
    body.nonfinite = nonfinite;
    say(agent, FromReplica<RoundReport>{replica(agent), body});
  }
  // A round in which the last agent reports this; the others are sound.
  void round(RoundNumber number, double norm, std::int64_t nonfinite = 0) {
    wait(milliseconds(10));
    const RoundKey key{JobId(1), 0, number};
    const auto there = agents;
    for (const auto agent : there) {
      const bool odd = agent == there.back() && there.size() == 4;
      report_one(agent, key, odd ? norm : 1, odd ? nonfinite : 0);
    }
    reason = last_reason(key);
    for (const auto agent : there) vote(agent, replica(agent), key, 1);
    for (const auto agent : there) applied(agent, replica(agent), key, {11, 11});
    EXPECT_EQ(job(JobId(1)).committed_round, number);
  }
  RejectReason last_reason(const RoundKey& key) {
    const auto* found = state().contributions.find({key, replica(agents.back())});
    return found == nullptr ? RejectReason::kNone : found->reject_reason;
  }
  bool saw(const char* kind) {
    return std::any_of(events.begin(), events.end(),
                       [&](const EventRecord& event) { return event.kind == kind; });
  }
  std::vector<ConnectionId> agents;
  RejectReason reason = RejectReason::kNone;
};

TEST(Quarantine, ThreeContributionsThatAreNotFinite) {
  Four rig;
  for (RoundNumber n = 1; n <= 2; ++n) rig.round(n, 1, 5);
  EXPECT_EQ(rig.reason, RejectReason::kNonFinite);
  EXPECT_FALSE(is_quarantined(rig.record(3)));
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 4u);
  rig.round(3, 1, 5);
  ASSERT_TRUE(is_quarantined(rig.record(3)));
  EXPECT_TRUE(rig.saw("agent_quarantined"));
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 3u) << "released with the commit";
  rig.restart();
  EXPECT_TRUE(is_quarantined(rig.record(3))) << "it outlives the coordinator";
}

TEST(Quarantine, ItEndsByItself) {
  Four rig;
  for (RoundNumber n = 1; n <= 3; ++n) rig.round(n, 1, 5);
  ASSERT_EQ(live_replicas(rig.state(), JobId(1)).size(), 3u);
  for (int i = 0; i < 121; ++i) {
    for (const auto agent : rig.agents) rig.say(agent, Heartbeat{});
    rig.wait(seconds(5));
  }
  EXPECT_FALSE(is_quarantined(rig.record(3)));
  EXPECT_TRUE(rig.saw("agent_quarantine_ended"));
  EXPECT_EQ(rig.record(3).health_record.quarantines, 1) << "the next one is longer";
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 4u) << "it works again";
}

TEST(Quarantine, AnOperatorLiftsIt) {
  Four rig;
  for (RoundNumber n = 1; n <= 3; ++n) rig.round(n, 1, 5);
  rig.input(CommandAgent{RequestId{1}, AgentId(4), AgentVerb::kUncordon});
  EXPECT_EQ(rig.record(3).health_record, HealthRecord());
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 4u);
}

TEST(Quarantine, ANormFarBeyondTheMedianIsRejected) {
  Four rig;
  rig.round(1, 10);
  EXPECT_EQ(rig.reason, RejectReason::kNone) << "ten times the median is clipped";
  rig.round(2, 10.1);
  EXPECT_EQ(rig.reason, RejectReason::kOutlier);
  EXPECT_EQ(rig.record(3).health_record.violations, 1);
}

TEST(Quarantine, WithFewMembersNobodyIsTheOddOne) {
  Four rig;
  rig.say(rig.agents.front(), Goodbye{"stopped"});
  rig.agents.erase(rig.agents.begin());
  const RoundKey key{JobId(1), 0, 1};
  for (const auto agent : rig.agents) {
    rig.report_one(agent, key, agent == rig.agents.back() ? 1000 : 1, 0);
  }
  EXPECT_EQ(rig.last_reason(key), RejectReason::kNone);
}

TEST(Quarantine, WhoseStepsLeftNothingIsNoMeasure) {
  Four rig;
  const RoundKey key{JobId(1), 0, 1};
  for (const auto agent : rig.agents) {
    rig.report_one(agent, key, agent == rig.agents.back() ? 1 : 0, 0);
  }
  EXPECT_EQ(rig.last_reason(key), RejectReason::kNone);
  EXPECT_EQ(rig.record(3).health_record.violations, 0);
}

TEST(Quarantine, WhatMostDoIsTheJobsFault) {
  Four rig;
  const RoundKey key{JobId(1), 0, 1};
  for (std::size_t i = 0; i < 4; ++i) rig.report_one(rig.agents[i], key, 1, i == 0 ? 0 : 7);
  EXPECT_EQ(rig.last_reason(key), RejectReason::kNonFinite);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rig.record(i).health_record.violations, 0);
}

// ---- memory

TEST(OutOfMemory, IsRememberedAndTriedElsewhere) {
  Rig rig;
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 1;
  rig.adopt(spec);
  const auto a = rig.join("a");
  const ReplicaId first = rig.last<Assign>(a)->replica;
  rig.say(a, ReplicaFailed{first, ReplicaFailure::kOutOfMemory, "the host has no memory left"});
  const auto& refusals = rig.state().agents.at(AgentId(1)).refusals;
  ASSERT_EQ(refusals.size(), 1u);
  const JobSpec full = with_derived_fields(spec);
  EXPECT_EQ(refusals[0].needed, training_memory(full));
  rig.wait(seconds(5));
  EXPECT_EQ(rig.last<Assign>(a)->replica, first) << "not tried there again";
  EXPECT_EQ(rig.job(JobId(1)).reason, JobReason::kNoDeviceFits);
  EXPECT_EQ(rig.job(JobId(1)).failures_in_row, 0);
  rig.restart();
  const auto again = rig.join("a", {1});
  rig.wait(seconds(5));
  EXPECT_FALSE(rig.last<Assign>(again)) << "nor after a restart of the coordinator";
  const auto b = rig.join("b");
  EXPECT_TRUE(rig.last<Assign>(b)) << "but elsewhere";
}

TEST(OutOfMemory, ASmallerNeedIsTried) {
  Rig rig;
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 1;
  rig.adopt(spec);
  const auto a = rig.join("a");
  rig.say(a, ReplicaFailed{rig.last<Assign>(a)->replica, ReplicaFailure::kOutOfMemory, ""});
  JobSpec smaller = spec;
  smaller.name = "smaller";
  smaller.model.hidden = 16;
  ASSERT_TRUE(rig.submit(smaller).ok());
  rig.wait(seconds(3));
  EXPECT_EQ(rig.last<Assign>(a)->job, JobId(2));
}

TEST(OutOfMemory, CountsWithWhatIsBesideItAndIsForgottenOnDemand) {
  Rig rig;
  JobSpec spec = small_job();
  spec.model.layers = 2;
  spec.swarm.stages = 2;
  spec.swarm.min_replicas = 1;
  rig.adopt(spec);
  const auto a = rig.join("a");
  rig.wait(seconds(3));
  ASSERT_EQ(live_replicas(rig.state(), JobId(1)).size(), 2u);
  rig.say(a, ReplicaFailed{rig.last<Assign>(a)->replica, ReplicaFailure::kOutOfMemory, ""});
  const JobSpec full = with_derived_fields(spec);
  const swarm::CostModel model(full, swarm::cost_options(full));
  const auto& agent = rig.state().agents.at(AgentId(1));
  EXPECT_EQ(agent.refusals.at(0).needed, model.memory({0, 2}) + model.memory({2, 4}));
  rig.wait(seconds(5));
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 1u);
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kUncordon});
  EXPECT_TRUE(agent.refusals.empty());
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 2u);
}

// ---- uptime

TEST(UptimeOfAgents, LossesAndStaysAreKept) {
  Rig rig;
  const auto a = rig.join("a");
  rig.wait(seconds(8));
  rig.say(a, Goodbye{"stopped"});
  rig.wait(seconds(100));
  const auto& agent = rig.state().agents.at(AgentId(1));
  EXPECT_EQ(agent.uptime, (Uptime{{}, 8, 1}));
  rig.join("a");
  EXPECT_EQ(agent.uptime, (Uptime{rig.now, 8, 1}));
  rig.join("a", {2});
  EXPECT_EQ(agent.uptime.losses, 1) << "the same process is back";
  rig.join("a");
  EXPECT_EQ(agent.uptime.losses, 2) << "it was restarted";
}

}  // namespace
}  // namespace shoal::coordinator
