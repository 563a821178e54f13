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
    health_record = after_violation(health_record, RejectReason::kOutlier, at, Options());
  }
  return health_record;
}

// ---- the rules

TEST(HealthRecord, TheThirdViolationWithinTheWindowIsOneTooMany) {
  HealthRecord health_record = after_violations({}, 2, kStart);
  EXPECT_EQ(health_record.quarantined_until, Instant());
  health_record = after_violations(health_record, 1, kStart + seconds(3599));
  EXPECT_EQ(health_record.quarantined_until, kStart + seconds(3599 + 600));
  EXPECT_EQ(health_record.violation_reason, RejectReason::kOutlier);
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
  EXPECT_TRUE(is_violation(RejectReason::kOutlier));
  EXPECT_FALSE(is_violation(RejectReason::kNonFinite)) << "the job's matter";
  for (const auto fair : {RejectReason::kNone, RejectReason::kNoTokens, RejectReason::kNotReported,
                          RejectReason::kJoiner}) {
    EXPECT_FALSE(is_violation(fair));
  }
}

const TrainerSpec kBuiltin{};

TrainerSpec program(const std::string& code, const std::string& entry = "train.py") {
  return {.kind = TrainerKind::kPython, .entry = entry, .code = code};
}

TEST(HealthRecord, ADeviceHasLessThanWhatItCouldNotHold) {
  AgentRecord agent;
  const Device device{.index = 1, .memory = Bytes(1000)};
  EXPECT_EQ(believed_memory(agent, device, kBuiltin), Bytes(1000));
  remember_refusal(agent, kBuiltin, {1, Bytes(800), kStart});
  remember_refusal(agent, kBuiltin, {1, Bytes(900), kStart});
  remember_refusal(agent, kBuiltin, {0, Bytes(10), kStart});
  EXPECT_EQ(believed_memory(agent, device, kBuiltin), Bytes(799));
  EXPECT_EQ(agent.refusals.size(), 2u);
  remember_refusal(agent, kBuiltin, {1, Bytes(700), kStart + seconds(5)});
  EXPECT_EQ(believed_memory(agent, device, kBuiltin), Bytes(699)) << "it needs even less to fail";
  const Device third{.index = 2, .memory = Bytes(500)};
  EXPECT_EQ(believed_memory(agent, third, kBuiltin), Bytes(500)) << "no refusal names this one";
  EXPECT_EQ(believed_memory(agent, device, program("sha256:a")), Bytes(1000))
      << "what a program needs is unknown";
}

TEST(HealthRecord, AProgramWithoutMemoryLeavesTheDeviceToOthers) {
  AgentRecord agent;
  const Device device{.index = 1, .memory = Bytes(1000)}, other{.index = 0, .memory = Bytes(9)};
  remember_refusal(agent, program("sha256:a"), {1, Bytes(40), kStart});
  remember_refusal(agent, program("sha256:a", "other.py"), {1, Bytes(30), kStart + seconds(1)});
  EXPECT_EQ(agent.refusals,
            (std::vector<DeviceRefusal>{{1, Bytes(), kStart + seconds(1), "sha256:a"}}));
  EXPECT_EQ(believed_memory(agent, device, program("sha256:a")), Bytes());
  EXPECT_TRUE(ran_out(agent, device, program("sha256:a")));
  EXPECT_FALSE(ran_out(agent, other, program("sha256:a")));
  for (const TrainerSpec& trainer : {kBuiltin, program("sha256:b"), program("", "train.py")}) {
    EXPECT_EQ(believed_memory(agent, device, trainer), Bytes(1000));
  }
  remember_refusal(agent, program("", "train.py"), {1, Bytes(40), kStart});
  EXPECT_TRUE(ran_out(agent, device, program("", "train.py")));
  EXPECT_FALSE(ran_out(agent, device, program("", "mine.py")));
}

TEST(HealthRecord, RefusalsOfProgramsAreBounded) {
  AgentRecord agent;
  remember_refusal(agent, kBuiltin, {0, Bytes(10), kStart});
  for (std::size_t i = 0; i <= kProgramRefusalsMax; ++i) {
    remember_refusal(agent, program("sha256:" + std::to_string(i)), {0, Bytes(), kStart});
  }
  EXPECT_EQ(agent.refusals.size(), kProgramRefusalsMax + 1);
  EXPECT_EQ(agent.refusals[0].code, "") << "that of the built-in trainer stays";
  EXPECT_EQ(agent.refusals[1].code, "sha256:1") << "the oldest goes";
}

TEST(HealthRecord, ARestartForgetsProgramsAndADeviceThatIsGoneBoth) {
  const Device device{.index = 0, .name = "card", .memory = Bytes(1000)};
  AgentRecord agent{.devices = {device}};
  remember_refusal(agent, kBuiltin, {0, Bytes(10), kStart});
  remember_refusal(agent, program("sha256:a"), {0, Bytes(), kStart});
  const AgentRecord before = agent;
  forget_past_refusals(agent, {device}, false);
  EXPECT_EQ(agent, before) << "its connection was interrupted";
  forget_past_refusals(agent, {device}, true);
  ASSERT_EQ(agent.refusals.size(), 1u);
  EXPECT_EQ(agent.refusals[0].code, "");
  agent = before;
  Device other = device;
  other.memory = Bytes(2000);
  forget_past_refusals(agent, {other}, false);
  EXPECT_EQ(agent, before) << "the same card";
  agent = before;
  forget_past_refusals(agent, {}, false);
  EXPECT_TRUE(agent.refusals.empty()) << "the device is gone";
}

TEST(HealthRecord, CordonedDevice_GetsNoJobUntilItIsForgiven) {
  AgentRecord agent;
  agent.devices = {{.index = 1, .memory = Bytes(1000)}};
  cordon_device(agent, kBuiltin, {.device = 1, .needed = Bytes(), .at = kStart});
  EXPECT_TRUE(is_cordoned(agent, 1, kBuiltin));
  EXPECT_TRUE(is_cordoned(agent, 1, program("sha256:a")));
  EXPECT_FALSE(is_cordoned(agent, 0, kBuiltin));
  EXPECT_EQ(believed_memory(agent, agent.devices[0], kBuiltin), Bytes(1000));
  forget_past_refusals(agent, agent.devices, true);
  forget_past_refusals(agent, {}, true);
  EXPECT_TRUE(is_cordoned(agent, 1, kBuiltin)) << "a restart mends no card";
}

TEST(HealthRecord, ProgramThatFails_IsKeptFromTheDeviceAlone) {
  AgentRecord agent;
  agent.devices = {{.index = 1, .memory = Bytes(1000)}};
  const TrainerSpec failing = program("sha256:a");
  cordon_device(agent, failing, {.device = 1, .needed = Bytes(), .at = kStart});
  EXPECT_TRUE(is_cordoned(agent, 1, failing));
  EXPECT_FALSE(is_cordoned(agent, 1, program("sha256:b")));
  EXPECT_FALSE(is_cordoned(agent, 1, kBuiltin));
  EXPECT_FALSE(ran_out(agent, agent.devices[0], failing));
  forget_past_refusals(agent, agent.devices, false);
  EXPECT_TRUE(is_cordoned(agent, 1, failing));
  forget_past_refusals(agent, agent.devices, true);
  EXPECT_FALSE(is_cordoned(agent, 1, failing)) << "the agent may run it in another environment";
}

TEST(HealthRecord, ProgramsThatFail_FillABoundedList) {
  AgentRecord agent;
  for (std::size_t i = 0; i < kProgramRefusalsMax + 3; ++i) {
    cordon_device(agent, program("sha256:" + std::to_string(i)), {.device = 1});
  }
  EXPECT_EQ(agent.refusals.size(), kProgramRefusalsMax);
  EXPECT_FALSE(is_cordoned(agent, 1, program("sha256:0")));
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
  explicit Four(TrainerKind kind = TrainerKind::kBuiltin) {
    JobSpec spec = small_job();
    spec.train.steps = Steps(1000);
    if (kind == TrainerKind::kPython) spec.trainer = {.kind = kind, .entry = "train.py"};
    programs.beneath_root = true;
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

TEST(Quarantine, ThreeOutliers) {
  Four rig;
  for (RoundNumber n = 1; n <= 2; ++n) rig.round(n, 100);
  EXPECT_EQ(rig.reason, RejectReason::kOutlier);
  EXPECT_FALSE(is_quarantined(rig.record(3)));
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 4u);
  rig.round(3, 100);
  ASSERT_TRUE(is_quarantined(rig.record(3)));
  EXPECT_TRUE(rig.saw("agent_quarantined"));
  EXPECT_EQ(live_replicas(rig.state(), JobId(1)).size(), 3u) << "released with the commit";
  rig.restart();
  EXPECT_TRUE(is_quarantined(rig.record(3))) << "it outlives the coordinator";
}

TEST(Quarantine, ItEndsByItself) {
  Four rig;
  for (RoundNumber n = 1; n <= 3; ++n) rig.round(n, 100);
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
  for (RoundNumber n = 1; n <= 3; ++n) rig.round(n, 100);
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

TEST(Quarantine, TheNumbersOfAProgramAreNotItsAgents) {
  Four rig(TrainerKind::kPython);
  for (RoundNumber n = 1; n <= 3; ++n) rig.round(n, 100);
  EXPECT_EQ(rig.reason, RejectReason::kOutlier);
  EXPECT_EQ(rig.record(3).health_record.violations, 0);
  EXPECT_FALSE(is_quarantined(rig.record(3)));
}

TEST(Quarantine, ValuesThatAreNotFiniteAreNoViolation) {
  Four rig;
  for (RoundNumber n = 1; n <= 4; ++n) {
    rig.round(n, 1, 5);
    EXPECT_EQ(rig.reason, RejectReason::kNonFinite);
  }
  EXPECT_EQ(rig.record(3).health_record, HealthRecord());
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

JobSpec program_job(const std::string& name, const std::string& code) {
  JobSpec spec = small_job(name);
  spec.swarm.min_replicas = 1;
  spec.trainer = {.kind = TrainerKind::kPython, .entry = "train.py", .code = code};
  return spec;
}

TEST(OutOfMemory, OfAProgramKeepsNoOtherJobFromTheDevice) {
  Rig rig;
  rig.programs.code_from = {"*"};
  rig.adopt(program_job("large", "sha256:" + std::string(64, 'a')));
  const auto a = rig.join("a");
  rig.say(a, ReplicaFailed{rig.last<Assign>(a)->replica, ReplicaFailure::kOutOfMemory, "CUDA"});
  rig.wait(seconds(5));
  EXPECT_TRUE(live_replicas(rig.state(), JobId(1)).empty()) << "not tried there again";
  EXPECT_EQ(rig.job(JobId(1)).reason, JobReason::kNoDeviceFits);
  EXPECT_NE(rig.job(JobId(1)).detail.find("ran out of memory on 1 free device"), std::string::npos)
      << rig.job(JobId(1)).detail;
  rig.restart();
  const auto back = rig.join("a", {1});
  rig.wait(seconds(3));
  EXPECT_FALSE(rig.last<Assign>(back)) << "nor after a restart of the coordinator";
  JobSpec model = small_job("model");
  model.swarm.min_replicas = 1;
  ASSERT_TRUE(rig.submit(model).ok());
  rig.wait(seconds(3));
  EXPECT_EQ(live_replicas(rig.state(), JobId(2)).size(), 1u) << rig.job(JobId(2)).detail;
}

TEST(OutOfMemory, OfAProgramIsForgottenWhenItsAgentRestarts) {
  Rig rig;
  rig.programs.code_from = {"*"};
  rig.adopt(program_job("large", "sha256:" + std::string(64, 'a')));
  const auto a = rig.join("a");
  rig.say(a, ReplicaFailed{rig.last<Assign>(a)->replica, ReplicaFailure::kOutOfMemory, "CUDA"});
  const auto again = rig.join("a");
  rig.wait(seconds(5));
  EXPECT_TRUE(rig.last<Assign>(again));
  EXPECT_TRUE(rig.state().agents.at(AgentId(1)).refusals.empty());
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

// GPU 0 of 3 disappears, so that the others are numbered anew.
TEST(DeviceRefusals, StayWithTheirCards) {
  const auto card = [](std::int32_t index, const char* uuid) {
    Device device{.index = index, .kind = DeviceKind::kCuda, .name = "H200"};
    device.uuid = uuid;
    return device;
  };
  AgentRecord agent;
  agent.devices = {card(0, "GPU-a"), card(1, "GPU-b"), card(2, "GPU-c")};
  for (const std::int32_t index : {0, 1}) {
    cordon_device(agent, {}, {.device = index, .needed = Bytes(), .at = Instant{1}});
  }
  const std::vector<Device> fewer = {card(0, "GPU-b"), card(1, "GPU-c")};
  EXPECT_TRUE(are_renumbered(agent.devices, fewer));
  forget_past_refusals(agent, fewer, true);
  agent.devices = fewer;
  EXPECT_TRUE(is_cordoned(agent, 0, {}));
  EXPECT_FALSE(is_cordoned(agent, 1, {}));
  EXPECT_EQ(agent.refusals.size(), 2u) << "that of the absent card is kept";
  const std::vector<Device> all = {card(0, "GPU-c"), card(1, "GPU-a"), card(2, "GPU-b")};
  forget_past_refusals(agent, all, true);
  EXPECT_FALSE(is_cordoned(agent, 0, {}));
  EXPECT_TRUE(is_cordoned(agent, 1, {}));
  EXPECT_TRUE(is_cordoned(agent, 2, {}));
}

}  // namespace
}  // namespace shoal::coordinator
