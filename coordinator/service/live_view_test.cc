// What people see of the moment, and the series that pass by.
#include "coordinator/service/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/service/telemetry_exporter.h"

namespace shoal::coordinator {
namespace {

using ::testing::UnorderedElementsAre;

constexpr Instant kStart{1'000'000'000'000};
constexpr ConnectionId kStream{5};

// Agents tell sums; one that begins again begins at zero.
TEST(LiveBoard, RefusalsOfPeersAreSummed) {
  const auto meters = std::make_shared<Meters>();
  LiveBoard board(seconds(2), {}, meters);
  board.welcomed(kStart, kStream, AgentId(4));
  Instant now = kStart;
  const auto beat = [&](std::int64_t foreign) {
    now = now + seconds(2);
    board.said(now, kStream, Heartbeat{.refusals = {{RefusalReason::kForeign, foreign}}});
    return meters->refusals.counts(Port::kPeers)[RefusalReason::kForeign];
  };
  EXPECT_EQ(beat(3), 3);
  EXPECT_EQ(beat(5), 5);
  EXPECT_EQ(beat(1), 6);
}

TEST(LiveBoard, HealthFollowsTheHeartbeats) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.said(kStart, kStream, Heartbeat{.sequence = 1, .resident = Bytes(42)});
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).health, Health::kGreen);
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).resident, Bytes(42));
  EXPECT_EQ(board.view(kStart + seconds(6))->agents.at(AgentId(1)).health, Health::kYellow);
  board.hung_up(kStream);
  EXPECT_EQ(board.view(kStart + seconds(7))->agents.at(AgentId(1)).health, Health::kRed);
  board.stored(AgentRecord{.id = AgentId(1), .state = AgentState::kGone});
  EXPECT_TRUE(board.view(kStart + seconds(8))->agents.empty());
}

TEST(LiveBoard, PlacementOfATrainingJob_IsShownUntilItLetsItsDevicesGo) {
  const auto meters = std::make_shared<Meters>();
  LiveBoard board(seconds(2), {}, meters);
  PlacementReport report{.job = JobId(3), .at = kStart};
  report.move = MoveReport{.at = kStart, .verdict = swarm::BalanceVerdict::kDoesNotPay};
  const auto shown = std::make_shared<const PlacementReport>(report);
  board.show(ShowPlacement{shown, true});
  EXPECT_TRUE(board.view(kStart)->placements.empty()) << "a job that nobody knows";
  board.stored(JobRecord{.id = JobId(3), .phase = JobPhase::kTraining});
  board.show(ShowPlacement{shown, true});
  board.show(ShowPlacement{shown, false});
  EXPECT_EQ(board.view(kStart + seconds(1))->placements.at(JobId(3)), shown);
  EXPECT_EQ(meters->runtime.moves_considered[swarm::BalanceVerdict::kDoesNotPay].Value(), 2);
  EXPECT_EQ(meters->runtime.moves_considered[swarm::BalanceVerdict::kMoves].Value(), 0);
  board.stored(JobRecord{.id = JobId(3), .phase = JobPhase::kPaused});
  EXPECT_TRUE(board.view(kStart + seconds(2))->placements.empty());
}

TEST(LiveBoard, AgentWithASlowReplica_IsYellowAndSaysWhy) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.stored(ReplicaRecord{.id = ReplicaId(5), .agent = AgentId(1)});
  board.show({ReplicaId(5), 0.9, ""});
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).health, Health::kGreen);
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).health_reason, "");
  board.show({ReplicaId(5), 0.2, "rep_5 is slow"});
  const auto view = board.view(kStart + seconds(1));
  EXPECT_EQ(view->agents.at(AgentId(1)).health, Health::kYellow);
  EXPECT_EQ(view->agents.at(AgentId(1)).health_reason, "rep_5 is slow");
  EXPECT_EQ(view->agents.at(AgentId(1)).slow_replicas, 1);
  EXPECT_EQ(view->speeds.at(ReplicaId(5)).ratio, 0.2);
  const auto late = board.view(kStart + seconds(9))->agents.at(AgentId(1));
  EXPECT_EQ(late.health_reason, "its heartbeat is late; rep_5 is slow");
  board.hung_up(kStream);
  EXPECT_EQ(board.view(kStart + seconds(10))->agents.at(AgentId(1)).health, Health::kRed);
  board.stored(ReplicaRecord{.id = ReplicaId(5), .state = ReplicaState::kFailed});
  board.show({ReplicaId(5), 0.2, "rep_5 is slow"});  // it has ended meanwhile
  EXPECT_TRUE(board.view(kStart + seconds(11))->speeds.empty());
}

TEST(LiveBoard, AgentWithADeviceInTrouble_IsYellowAndNotLate) {
  LiveBoard board(seconds(2), {});
  AgentRecord record{.id = AgentId(1), .state = AgentState::kIdle};
  Device gpu{.index = 0, .kind = DeviceKind::kCuda};
  gpu.uuid = "GPU-a";
  record.devices = {gpu};
  board.stored(record);
  board.welcomed(kStart, kStream, AgentId(1));
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).health, Health::kGreen);
  Heartbeat heartbeat;
  heartbeat.samples = {{.uuid = "GPU-a", .answer = DeviceAnswer::kSilent, .error = "no answer"}};
  EXPECT_TRUE(board.said(kStart + seconds(1), kStream, heartbeat));
  const AgentLive silent = board.view(kStart + seconds(1))->agents.at(AgentId(1));
  EXPECT_EQ(silent.health, Health::kYellow);
  EXPECT_EQ(silent.health_reason, "the driver of device 0 does not answer: no answer");
  EXPECT_FALSE(silent.late);
  ASSERT_EQ(silent.troubles.size(), 1u);
  EXPECT_EQ(silent.troubles[0].trouble, DeviceTroubleKind::kSilent);
  DeviceRefusal cordon{.device = 0, .needed = Bytes(), .at = kStart};
  cordon.kind = DeviceRefusalKind::kUnhealthy;
  cordon.reasons = {"XID 79"};
  record.refusals = {cordon};
  board.stored(record);
  heartbeat.samples[0].answer = DeviceAnswer::kWhole;
  EXPECT_TRUE(board.said(kStart + seconds(2), kStream, heartbeat));
  EXPECT_EQ(board.view(kStart + seconds(2))->agents.at(AgentId(1)).health_reason,
            "device 0 is cordoned: XID 79");
  record.refusals.clear();
  board.stored(record);
  EXPECT_EQ(board.view(kStart + seconds(3))->agents.at(AgentId(1)).health, Health::kGreen);
}

TEST(LiveBoard, FiguresOfARelayAreThoseOfTheLastHeartbeat) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.said(kStart, kStream, Heartbeat{.relay = RelayFigures{.waiting = 3}});
  ASSERT_TRUE(board.view(kStart)->agents.at(AgentId(1)).relay);
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).relay->waiting, 3);
}

TEST(LiveBoard, DevicesFailAsTheLastHeartbeatSays) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  const std::vector<DeviceFailure> failures{{1, "exited with code 1: no driver"}};
  board.said(kStart, kStream, Heartbeat{.failures = failures});
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).failures, failures);
  board.said(kStart, kStream, Heartbeat{});
  EXPECT_THAT(board.view(kStart + seconds(1))->agents.at(AgentId(1)).failures, testing::IsEmpty());
}

// One agent with two GPUs, whose heartbeats are told as the runtime tells them.
class DeviceBoard : public testing::Test {
 protected:
  static constexpr Instant kMinute{1'020'000'000'000};  // where one begins

  explicit DeviceBoard(std::vector<DeviceState> devices = {})
      : board_(seconds(2), snapshot(), std::make_shared<Meters>(), std::move(devices)) {
    board_.welcomed(kMinute, kStream, AgentId(1));
  }
  static Snapshot snapshot() {
    AgentRecord agent{.id = AgentId(1), .state = AgentState::kActive, .updated_at = kStart};
    agent.devices = {{.index = 0, .kind = DeviceKind::kCuda, .name = "H200", .uuid = "GPU-a"},
                     {.index = 1, .kind = DeviceKind::kCuda, .name = "H200", .uuid = "GPU-b"}};
    Snapshot snapshot;
    snapshot.agents = {agent};
    return snapshot;
  }
  static DeviceSample sample(const char* uuid, double busy) {
    DeviceSample sample{.uuid = uuid, .answer = DeviceAnswer::kWhole};
    sample.use = DeviceUse{.busy = busy};
    sample.errors = DeviceErrors{};
    return sample;
  }
  // What the store is given before the heartbeat is heard.
  DeviceLog beat(Duration since, std::vector<DeviceSample> samples = {}) {
    Heartbeat heartbeat;
    heartbeat.samples = std::move(samples);
    DeviceLog log = board_.take_devices(kMinute + since);
    board_.said(kMinute + since, kStream, heartbeat);
    return log;
  }
  std::vector<DeviceSample> shown(Duration since) {
    return board_.view(kMinute + since)->agents.at(AgentId(1)).samples;
  }

  LiveBoard board_;
};

TEST_F(DeviceBoard, Minute_IsToldOnceWithWhatEachDeviceDid) {
  EXPECT_TRUE(beat(seconds(0), {sample("GPU-a", 1)}).empty());
  const DeviceLog first = beat(seconds(2));
  EXPECT_TRUE(first.minutes.empty());
  ASSERT_EQ(first.states.size(), 1u) << "the store does not know it";
  EXPECT_EQ(first.states[0].name, "H200");
  EXPECT_TRUE(beat(seconds(45), {sample("GPU-a", 0)}).empty()) << "nothing changes that matters";
  const DeviceLog log = beat(seconds(61));
  ASSERT_EQ(log.minutes.size(), 1u);
  EXPECT_EQ(log.minutes[0].uuid, "GPU-a");
  EXPECT_EQ(log.minutes[0].point.at, kMinute);
  EXPECT_EQ(log.minutes[0].point.busy, 0.75);
  EXPECT_TRUE(log.states.empty());
  EXPECT_TRUE(beat(seconds(63)).empty());
  const DeviceLog next = beat(seconds(121));
  ASSERT_EQ(next.minutes.size(), 1u) << "as it said last";
  EXPECT_EQ(next.minutes[0].point.busy, 0);
  EXPECT_TRUE(next.states.empty());
  EXPECT_EQ(beat(seconds(2581)).states.size(), 1u)
      << "the hour is full: the store may have lost it";
}

TEST_F(DeviceBoard, DeviceOfAnAgentThatIsAway_CountsUntilItWasHeard) {
  beat(seconds(0), {sample("GPU-a", 1)});
  beat(seconds(30));
  board_.hung_up(kStream);
  const DeviceLog log = board_.take_devices(kMinute + seconds(61));
  ASSERT_EQ(log.minutes.size(), 1u);
  EXPECT_EQ(log.minutes[0].point.busy, 1);
  EXPECT_TRUE(board_.take_devices(kMinute + seconds(121)).minutes.empty());
}

TEST_F(DeviceBoard, Fault_IsToldWithTheNextHeartbeat) {
  beat(seconds(0), {sample("GPU-a", 1), sample("GPU-b", 1)});
  beat(seconds(61));
  DeviceSample sick = sample("GPU-b", 1);
  sick.errors->xids = {{79, 1, seconds(3)}};
  beat(seconds(70), {sick});
  const DeviceLog log = beat(seconds(72));
  ASSERT_EQ(log.states.size(), 1u);
  EXPECT_EQ(log.states[0].sample, sick);
  EXPECT_EQ(log.states[0].index, 1);
  EXPECT_TRUE(log.minutes.empty());
  DeviceSample replays = sick;
  replays.errors->pcie_replays = 5;
  beat(seconds(74), {replays});
  EXPECT_TRUE(beat(seconds(76)).empty()) << "small errors wait for the minute";
  EXPECT_EQ(beat(seconds(121)).states.size(), 1u);
}

TEST_F(DeviceBoard, Errors_GrowOlder) {
  DeviceSample sick = sample("GPU-b", 1);
  sick.errors->xids = {{79, 1, seconds(3)}};
  beat(seconds(0), {sick});
  EXPECT_EQ(shown(seconds(10))[0].errors->xids[0].ago, seconds(13));
  EXPECT_EQ(shown(seconds(10))[0].age, Duration()) << "its agent is heard";
  sick.answer = DeviceAnswer::kSilent;
  sick.age = seconds(30);
  beat(seconds(20), {sick});
  EXPECT_EQ(shown(seconds(25))[0].age, seconds(35));
}

TEST_F(DeviceBoard, DeviceThatTheAgentHasNoMore_IsNotShown) {
  beat(seconds(0), {sample("GPU-a", 1), sample("GPU-b", 1)});
  EXPECT_EQ(shown(seconds(1)).size(), 2u);
  AgentRecord agent = snapshot().agents[0];
  agent.devices.pop_back();
  board_.stored(agent);
  EXPECT_EQ(shown(seconds(2)).size(), 1u);
}

class RestoredDeviceBoard : public DeviceBoard {
 protected:
  RestoredDeviceBoard() : DeviceBoard(stored()) {}
  static std::vector<DeviceState> stored() {
    DeviceState known{.agent = AgentId(1), .at = kMinute - seconds(100)};
    known.sample = sample("GPU-a", 0.5);
    DeviceState away = known;
    away.sample.uuid = "GPU-z";
    return {known, away};
  }
};

TEST_F(RestoredDeviceBoard, StoredSample_IsShownWithItsAgeUntilTheAgentSpeaks) {
  ASSERT_EQ(shown(seconds(5)).size(), 1u) << "the other one is no device of the agent any more";
  EXPECT_EQ(shown(seconds(5))[0].use->busy, 0.5);
  EXPECT_EQ(shown(seconds(5))[0].age, seconds(105));
  EXPECT_TRUE(beat(seconds(61)).minutes.empty()) << "nothing was heard";
  beat(seconds(62), {sample("GPU-a", 1)});
  EXPECT_EQ(shown(seconds(63))[0].age, Duration());
  EXPECT_TRUE(beat(seconds(64)).empty()) << "it says what is stored";
}

TEST(LiveBoard, WhateverAnAgentSaysShowsThatItIsThere) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.said(kStart + seconds(5), kStream, Progress{.replica = ReplicaId(8)});
  board.said(kStart + seconds(7), {6}, Progress{.replica = ReplicaId(8)});  // of nobody
  const auto there = board.view(kStart + seconds(6))->agents.at(AgentId(1));
  EXPECT_EQ(there.health, Health::kGreen);
  EXPECT_EQ(there.last_seen, kStart + seconds(5));
}

TEST(LiveBoard, AReturningAgentHasOneStream) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.welcomed(kStart, {6}, AgentId(1));
  board.hung_up(kStream);  // of the old stream, late
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).health, Health::kGreen);
}

TEST(LiveBoard, AgentsKnownFromBeforeAreRedUntilTheyReturn) {
  Snapshot snapshot;
  snapshot.agents.push_back({.id = AgentId(3), .state = AgentState::kActive, .updated_at = kStart});
  snapshot.agents.push_back({.id = AgentId(4), .state = AgentState::kGone});
  snapshot.counters.boot_epoch = 2;
  LiveBoard board(seconds(2), snapshot);
  EXPECT_EQ(board.view(kStart)->agents.size(), 1u);
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(3)).health, Health::kRed);
  EXPECT_EQ(board.view(kStart)->boot_epoch, 2);
}

TEST(LiveBoard, CountsTheReplicasOfAnAgentAtOnce) {
  Snapshot snapshot;
  snapshot.agents.push_back({.id = AgentId(1), .state = AgentState::kActive});
  snapshot.replicas.push_back({.id = ReplicaId(5), .agent = AgentId(1)});
  LiveBoard board(seconds(2), snapshot);
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).replicas, 1);
  ReplicaRecord second{.id = ReplicaId(6), .agent = AgentId(1)};
  board.stored(second);
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).replicas, 2);
  second.state = ReplicaState::kReleased;
  board.stored(second);
  second.id = ReplicaId(5), second.state = ReplicaState::kFailed;
  board.stored(second);
  EXPECT_EQ(board.view(kStart)->agents.at(AgentId(1)).replicas, 0);
}

TEST(LiveBoard, ProgressStaysUntilTheReplicaEnds) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.stored(ReplicaRecord{.id = ReplicaId(8), .agent = AgentId(1)});
  EXPECT_TRUE(board.said(kStart, kStream, Progress{.replica = ReplicaId(8), .step = Steps(3)}));
  EXPECT_EQ(board.view(kStart)->replicas.at(ReplicaId(8)).progress.step, Steps(3));
  board.stored(ReplicaRecord{.id = ReplicaId(8), .state = ReplicaState::kFailed});
  EXPECT_TRUE(board.view(kStart + seconds(1))->replicas.empty());
  board.stored(ReplicaRecord{.id = ReplicaId(9), .agent = AgentId(1)});
  board.said(kStart + seconds(2), kStream, PipelineStats{.replica = ReplicaId(9)});
  EXPECT_EQ(board.view(kStart + seconds(2))->pipeline.size(), 1u);
  board.stored(ReplicaRecord{.id = ReplicaId(9), .state = ReplicaState::kReleased});
  EXPECT_TRUE(board.view(kStart + seconds(3))->pipeline.empty());
}

TEST(LiveBoard, RestartedAgentAddsTheSameNumberOfRefusalsAgain) {
  const auto meters = std::make_shared<Meters>();
  LiveBoard board(seconds(2), {}, meters);
  board.welcomed(kStart, kStream, AgentId(1));
  Instant now = kStart;
  const auto count = [&](std::int64_t sequence, std::int64_t refused) {
    now = now + seconds(3);
    board.said(now, kStream, Heartbeat{sequence, {}, {{RefusalReason::kOtherMember, refused}}});
    return meters->refusals.counts(Port::kPeers)[RefusalReason::kOtherMember];
  };
  EXPECT_EQ(count(7, 1), 1);
  EXPECT_EQ(count(8, 1), 1);
  board.welcomed(kStart, kStream, AgentId(1));
  EXPECT_EQ(count(1, 1), 2);
}

// An agent cannot make replicas up, nor speak for those of another one.
TEST(LiveBoard, OnlyTheAgentOfAReplicaSpeaksForIt) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.stored(
      ReplicaRecord{.id = ReplicaId(8), .agent = AgentId(2), .state = ReplicaState::kLoading});
  for (const std::int64_t replica : {8, 9}) {
    const ReplicaId id(replica);
    EXPECT_FALSE(board.said(kStart, kStream, Progress{.replica = id}));
    EXPECT_FALSE(board.said(kStart, kStream, PipelineStats{.replica = id}));
    board.said(kStart, kStream, LoadProgress{id, Bytes(1), Bytes(2), Bytes(1), Bytes(1)});
  }
  const auto view = board.view(kStart + seconds(1));
  EXPECT_TRUE(view->replicas.empty());
  EXPECT_TRUE(view->pipeline.empty());
  EXPECT_TRUE(view->loads.empty());
}

TEST(LiveBoard, HowFarALoadIsStaysUntilItsReplicaHasLoaded) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  ReplicaRecord replica{
      .id = ReplicaId(8), .job = JobId(1), .agent = AgentId(1), .state = ReplicaState::kLoading};
  board.stored(replica);
  for (int second = 0; second <= 20; ++second) {
    board.stored(JobRecord{.id = JobId(1), .committed_round = second / 5});
    board.said(
        kStart + seconds(second), kStream,
        LoadProgress{ReplicaId(8), Bytes(8 * second), Bytes(1000), Bytes(10 * second), Bytes(10)});
  }
  const LoadLive live = board.view(kStart + seconds(20))->loads.at(ReplicaId(8));
  EXPECT_EQ(live.last.done, Bytes(160));
  EXPECT_DOUBLE_EQ(live.share.rate, 10);
  EXPECT_DOUBLE_EQ(live.share.share, .2);
  replica.state = ReplicaState::kServing;
  board.stored(replica);
  EXPECT_TRUE(board.view(kStart + seconds(22))->loads.empty());
}

TEST(LiveBoard, WhatCopiesHoldIsKnownUntilTheirKeeperEnds) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  const ReplicaId keeper(8), copy(21);
  ReplicaRecord replica{
      .id = keeper, .job = JobId(1), .agent = AgentId(1), .state = ReplicaState::kServing};
  replica.copies = {{copy, 1}};
  board.stored(replica);
  EXPECT_EQ(board.view(kStart)->copies.at(copy).round, -1) << "it is on its way";
  board.said(kStart, kStream,
             FromReplica<CopiesHeld>{keeper, {{{copy, {JobId(1), 0, 5}, {1, 2}, {3, 4}}}}});
  const CopyLive held = board.view(kStart + seconds(1))->copies.at(copy);
  EXPECT_EQ(held.round, 5);
  EXPECT_EQ(held.stage, 1);
  EXPECT_EQ(held.job, JobId(1));
  board.said(kStart, kStream, FromReplica<CopiesHeld>{keeper, {}});
  EXPECT_EQ(board.view(kStart + seconds(2))->copies.at(copy).round, -1) << "it failed";
  replica.copies = {{ReplicaId(22), 0}};
  board.stored(replica);
  EXPECT_FALSE(board.view(kStart + seconds(3))->copies.contains(copy));
  replica.state = ReplicaState::kReleased;
  board.stored(replica);
  EXPECT_TRUE(board.view(kStart + seconds(4))->copies.empty());
}

TEST(LiveBoard, RatesOfAPipelineFollowItsCounters) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  board.stored(ReplicaRecord{.id = ReplicaId(8), .agent = AgentId(1)});
  PipelineStats stats{.replica = ReplicaId(8)};
  stats.links = {{.to = ReplicaId(9)}};
  for (int second = 0; second <= 30; ++second) {
    stats.microbatches = 4 * second;
    stats.links[0].sent = Bytes(1000 * second);
    stats.links[0].received = Bytes(500 * second);
    board.said(kStart + seconds(second), kStream, stats);
  }
  PipelineLive live = board.view(kStart + seconds(30))->pipeline.at(ReplicaId(8));
  EXPECT_NEAR(live.microbatches_per_s, 4, 0.01);
  EXPECT_NEAR(live.links.at(ReplicaId(9)).sent_per_s, 1000, 1);
  EXPECT_NEAR(live.links.at(ReplicaId(9)).received_per_s, 500, 1);
  stats.links[0].sent = Bytes(0);  // a new connection counts from the start
  board.said(kStart + seconds(31), kStream, stats);
  live = board.view(kStart + seconds(31))->pipeline.at(ReplicaId(8));
  EXPECT_NEAR(live.links.at(ReplicaId(9)).sent_per_s, 1000, 1);
}

// Two replicas of one stage: each trains 1000 tokens in 2 s, and waits for 2 s in every round.
TEST(LiveBoard, TheSpeedOfAJobIsThatOfItsRounds) {
  LiveBoard board(seconds(2), {});
  board.welcomed(kStart, kStream, AgentId(1));
  JobRecord job{.id = JobId(1), .phase = JobPhase::kTraining};
  board.stored(job);
  for (const std::int64_t id : {8, 9}) {
    board.stored(ReplicaRecord{.id = ReplicaId(id), .job = job.id, .agent = AgentId(1)});
  }
  for (int second = 0; second <= 100; ++second) {
    const Instant now = kStart + seconds(second);
    if (second > 0 && second % 4 == 0) {
      job.committed_tokens += Tokens(2000);
      ++job.committed_round;
      job.committed_at = now;
      board.stored(job);
    }
    for (const std::int64_t id : {8, 9}) {
      board.said(now, kStream,
                 Progress{.replica = ReplicaId(id),
                          .key = {job.id, 0, job.committed_round + 1},
                          .tokens = Tokens(std::min(1000, 500 * (second % 4)))});
    }
  }
  EXPECT_DOUBLE_EQ(board.view(kStart + seconds(100))->tokens_per_s.at(job.id), 500);
  job.phase = JobPhase::kPaused;
  board.stored(job);
  EXPECT_FALSE(board.view(kStart + seconds(102))->tokens_per_s.contains(job.id));
}

TEST(LiveBoard, AViewIsSharedForHalfASecond) {
  LiveBoard board(seconds(2), {});
  const auto first = board.view(kStart);
  EXPECT_EQ(board.view(kStart + milliseconds(400)), first);
  EXPECT_NE(board.view(kStart + milliseconds(600)), first);
}

TEST(TelemetryExporter, ACommittedRoundGivesItsNumbers) {
  TelemetryExporter exporter({});
  JobRecord job{.id = JobId(1), .committed_round = 1};
  job.committed_step = Steps(50);
  job.bytes_sent = Bytes(700);
  RoundRecord round{.key = {JobId(1), 0, 1}, .state = RoundState::kCommitted};
  round.to_step = Steps(50);
  round.opened_at = kStart;
  round.committed_at = kStart + seconds(4);
  round.train_loss = 2.5;
  round.tokens = round.job_tokens = Tokens(6000);
  std::vector<std::pair<std::string, double>> seen;
  for (const Record& record : {Record(job), Record(round)}) {
    for (const SeriesPoint& point : exporter.from_record(kStart, record)) {
      EXPECT_EQ(point.step, 50);
      EXPECT_FALSE(point.replica);
      seen.emplace_back(point.name, point.value);
    }
  }
  EXPECT_THAT(seen, UnorderedElementsAre(
                        std::pair("round_bytes", 700.0), std::pair("train_loss", 2.5),
                        std::pair("round_seconds", 4.0), std::pair("tokens_per_second", 1500.0)));
  EXPECT_TRUE(exporter.from_record(kStart, job).empty());
}

// The tokens of its own round are what its point stands at, however far the job is by then.
TEST(TelemetryExporter, ALateEvaluationLeavesItsRoundWhereItIs) {
  TelemetryExporter exporter({});
  RoundRecord round{.key = {JobId(1), 0, 1}, .state = RoundState::kCommitted};
  round.job_tokens = Tokens(6000);
  round.train_loss = 2.5;
  EXPECT_EQ(exporter.from_record(kStart, round).at(0).tokens, Tokens(6000));
  JobRecord job{.id = JobId(1), .committed_round = 2};
  job.committed_tokens = Tokens(9000);
  exporter.from_record(kStart, job);
  round.validation_loss = 2.75;
  const auto again = exporter.from_record(kStart, round);
  EXPECT_EQ(again.back().name, "validation_loss");
  for (const SeriesPoint& point : again) EXPECT_EQ(point.tokens, Tokens(6000)) << point.name;
}

TEST(TelemetryExporter, AJobThatWentBackSaysFromWhereOnce) {
  TelemetryExporter exporter({});
  JobRecord job{.id = JobId(1), .committed_round = 9};
  EXPECT_FALSE(exporter.went_back_to(job));
  exporter.from_record(kStart, job);
  job.epoch = 1;
  job.committed_round = 4;
  EXPECT_EQ(exporter.went_back_to(job), 4);
  exporter.from_record(kStart, job);
  EXPECT_FALSE(exporter.went_back_to(job));
  const Progress former{.replica = ReplicaId(2), .key = {JobId(1), 0, 10}, .train_loss = 2.5};
  EXPECT_TRUE(exporter.from_progress(kStart, former).empty());
}

TEST(TelemetryExporter, ProgressGivesFourSeriesOfItsReplica) {
  TelemetryExporter exporter({});
  Progress progress{.replica = ReplicaId(2), .key = {JobId(1), 0, 1}};
  EXPECT_EQ(exporter.from_progress(kStart, progress).size(), 3u)
      << "later stages do not know the loss";
  progress.train_loss = 2.5;
  const auto points = exporter.from_progress(kStart, progress);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0].replica, ReplicaId(2));
}

TEST(TelemetryExporter, WhatAProgramLogsIsASeriesAtItsOwnStep) {
  TelemetryExporter exporter({});
  Progress progress{.replica = ReplicaId(2), .key = {JobId(1), 0, 1}, .step = Steps(30)};
  progress.logged = {{"norm", Steps(28), -1.5}};
  const auto points = exporter.from_progress(kStart, progress);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[3].name, "log.norm");
  EXPECT_EQ(points[3].step, 28);
  EXPECT_EQ(points[3].value, -1.5);
  EXPECT_EQ(points[3].replica, ReplicaId(2));
}

TEST(TelemetryExporter, AProgramThatMakesUpNamesGetsAsManyAsOneReplicaMayHave) {
  TelemetryExporter exporter({});
  Progress progress{.replica = ReplicaId(2), .key = {JobId(1), 0, 1}};
  for (std::size_t i = 0; i <= kLoggedValuesMax; ++i) {
    progress.logged = {{"n" + std::to_string(i), Steps(1), 1}};
    EXPECT_EQ(exporter.from_progress(kStart, progress).size(), i < kLoggedValuesMax ? 4u : 3u);
  }
  progress.logged = {{"n0", Steps(2), 1}};
  EXPECT_EQ(exporter.from_progress(kStart, progress).size(), 4u);
}

TEST(LiveBoard, WhoHasAReplicaWorksForItsJob) {
  ReplicaRecord replica;
  replica.id = ReplicaId(3), replica.agent = AgentId(1), replica.job = JobId(5);
  replica.state = ReplicaState::kServing;
  LiveBoard board(seconds(2), {});
  EXPECT_FALSE(board.has_replica(AgentId(1), ReplicaId(3)));
  board.stored(replica);
  EXPECT_TRUE(board.has_replica(AgentId(1), ReplicaId(3)));
  EXPECT_FALSE(board.has_replica(AgentId(2), ReplicaId(3)));
  EXPECT_TRUE(board.works_for(AgentId(1), JobId(5)));
  EXPECT_FALSE(board.works_for(AgentId(1), JobId(6)));
  EXPECT_FALSE(board.begins_from(AgentId(1), CheckpointId(7), JobId(4)));
  replica.source.kind = SourceKind::kCheckpoint, replica.source.checkpoint = CheckpointId(7);
  board.stored(replica);
  EXPECT_TRUE(board.begins_from(AgentId(1), CheckpointId(7), JobId(4)));
  EXPECT_FALSE(board.begins_from(AgentId(1), CheckpointId(7), JobId(5))) << "its own";
  EXPECT_FALSE(board.begins_from(AgentId(2), CheckpointId(7), JobId(4)));
  EXPECT_FALSE(board.continues_from(AgentId(1), CheckpointId(7)));
  replica.source.key.round = 9;
  board.stored(replica);
  EXPECT_FALSE(board.begins_from(AgentId(1), CheckpointId(7), JobId(4)))
      << "not with weights alone";
  EXPECT_TRUE(board.continues_from(AgentId(1), CheckpointId(7)));
  EXPECT_FALSE(board.continues_from(AgentId(2), CheckpointId(7)));
  replica.state = ReplicaState::kReleased;
  board.stored(replica);
  EXPECT_FALSE(board.works_for(AgentId(1), JobId(5)));
  EXPECT_FALSE(board.begins_from(AgentId(1), CheckpointId(7), JobId(4)));
}

}  // namespace
}  // namespace shoal::coordinator
