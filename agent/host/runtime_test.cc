// The whole host side against a coordinator that the test plays: sessions, trainers, checkpoint
// files.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "agent/host/runtime_test_util.h"
#include "agent/host/trainer_process.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;

TEST_F(RuntimeTest, JoinsReportsAndLoads) {
  serve();
  EXPECT_GT(coordinator_.next<Heartbeat>().resident.count(), 1 << 20);
}

// A coordinator that is newer may ask for what this agent does not know.
TEST_F(RuntimeTest, AJobThatCannotBeReadIsRefusedAndTheSessionStays) {
  start(options());
  join();
  v1::CoordinatorMessage order = proto::to_wire(ToAgent(assign(3)));
  order.mutable_assign()->set_spec_json(R"({"name":"kjv","data":{"train":"/data"},"warp":9})");
  coordinator_.say(order);
  const auto failed = coordinator_.next<ReplicaFailed>();
  EXPECT_EQ(failed.replica, ReplicaId(3));
  EXPECT_THAT(failed.detail, HasSubstr("warp"));
  coordinator_.say(assign(1));
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1));
}

TEST_F(RuntimeTest, ItsLinesAndThoseOfItsTrainersCanBeRead) {
  serve();
  coordinator_.say(ToReplica<Evaluate>{ReplicaId(1), {kKey, {0, 1, 1}}});  // the script aborts
  coordinator_.next<ReplicaFailed>();
  const std::string lines = coordinator_.logs.read();
  EXPECT_EQ(coordinator_.logs.agent(), AgentId(1));
  EXPECT_THAT(lines, HasSubstr("agent - joined as agt_1, incarnation 5\n"));
  EXPECT_THAT(lines, HasSubstr("agent rep_1 rep_1 of job kjv assigned to device 0\n"));
  EXPECT_THAT(lines, HasSubstr("trainer-0 rep_1 told to evaluate\n"));
  EXPECT_THAT(lines, HasSubstr("agent rep_1 trainer 0 ended, code 0, signal 6"));
}

TEST_F(RuntimeTest, ReconnectsWithItsIncarnationAndReplicas) {
  serve();
  coordinator_.break_session();
  const Hello hello = coordinator_.hello(2);
  EXPECT_EQ(hello.incarnation.n, 5u);
  ASSERT_EQ(hello.replicas.size(), 1u);
  EXPECT_EQ(hello.replicas[0].replica, ReplicaId(1));
  EXPECT_EQ(hello.devices[0].gflops, 7) << "as its trainer measured";
  coordinator_.welcome({ReplicaId(1)});
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1)) << "said again";
}

TEST_F(RuntimeTest, ADeadTrainerIsReportedAndReplaced) {
  serve();
  coordinator_.say(ToReplica<Evaluate>{ReplicaId(1), {kKey, {0, 1, 1}}});  // the script aborts
  const auto failed = coordinator_.next<ReplicaFailed>();
  EXPECT_EQ(failed.failure, ReplicaFailure::kTrainerExited);
  EXPECT_THAT(failed.detail, HasSubstr("SIGABRT"));
  coordinator_.say(assign(2));
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(2));
}

TEST_F(RuntimeTest, AFrozenTrainerIsKilledAndReplaced) {
  setenv("SCRIPT", "freeze", 1);
  HostOptions impatient = options();
  impatient.trainer_ping = impatient.core.detach_limit = milliseconds(300);
  start(std::move(impatient));
  join();
  coordinator_.say(assign(1));
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1));
  coordinator_.say(ToReplica<Evaluate>{ReplicaId(1), {kKey, {0, 1, 1}}});
  const auto failed = coordinator_.next<ReplicaFailed>();
  EXPECT_EQ(failed.failure, ReplicaFailure::kUnresponsive);
  EXPECT_THAT(failed.detail, HasSubstr("its stream ended, but its process did not"));
  unsetenv("SCRIPT");
  coordinator_.say(Release{ReplicaId(1), ReleaseReason::kReplaced});
  coordinator_.say(assign(2));
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(2));
}

TEST_F(RuntimeTest, ACheckpointIsHashedAndUploaded) {
  serve();
  coordinator_.say(ToReplica<WriteCheckpoint>{ReplicaId(1), {CheckpointId(4), kKey}});
  const auto written = coordinator_.next<CheckpointWritten>();
  ASSERT_EQ(written.files.size(), 1u);
  EXPECT_EQ(written.files[0].path, "model.safetensors");
  EXPECT_EQ(coordinator_.uploaded(), "weights");
}

TEST_F(RuntimeTest, ABrokenUploadGoesOnWhereTheCoordinatorIs) {
  coordinator_.cut_uploads_after(3);
  serve();
  coordinator_.say(ToReplica<WriteCheckpoint>{ReplicaId(1), {CheckpointId(4), kKey}});
  EXPECT_EQ(coordinator_.uploaded(), "weights");
}

TEST_F(RuntimeTest, ABrokenFetchGoesOnBehindWhatCame) {
  coordinator_.cut_downloads();
  start(options());
  join();
  Assign message = assign_from(CheckpointId(8));
  coordinator_.say(message);
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1));
  EXPECT_EQ(coordinator_.fetched_from(), 3u);
}

TEST_F(RuntimeTest, ACheckpointIsFetchedAndLoaded) {
  start(options());
  join();
  Assign message = assign_from(CheckpointId(8));
  coordinator_.say(message);
  EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1));
  message.replica = ReplicaId(2);
  message.source.checkpoint = CheckpointId(9);
  coordinator_.say(message);
  const auto failed = coordinator_.next<ReplicaFailed>();
  EXPECT_EQ(failed.failure, ReplicaFailure::kDigestMismatch);
  EXPECT_THAT(failed.detail, HasSubstr("there is no such checkpoint"));
}

TEST_F(RuntimeTest, StopSaysGoodbye) {
  serve();
  runtime_->stop();
  EXPECT_FALSE(coordinator_.next<Goodbye>().reason.empty());
  EXPECT_EQ(ended().code, 0);
}

// An old line of the trainer must not look like news, nor must a session that ends with the stop.
TEST_F(RuntimeTest, TheNoiseOfAStopIsNotLogged) {
  serve();
  runtime_->stop();
  coordinator_.next<Goodbye>();
  ended();
  const std::string lines = journal();
  const auto asked = lines.find("asked to stop\n");
  ASSERT_NE(asked, std::string::npos) << lines;
  EXPECT_NE(lines.find("trainer 0 ended normally\n", asked), std::string::npos) << lines;
  EXPECT_EQ(lines.find("no session", asked), std::string::npos) << lines;
}

TEST_F(RuntimeTest, ASecondStopIsNotLoggedAgain) {
  serve();
  runtime_->stop();
  runtime_->stop();
  ended();
  const std::string lines = journal();
  const auto asked = lines.find("asked to stop\n");
  ASSERT_NE(asked, std::string::npos) << lines;
  EXPECT_EQ(lines.find("asked to stop\n", asked + 1), std::string::npos) << lines;
}

TEST_F(RuntimeTest, ATrainerThatDoesNotStopIsKilled) {
  setenv("SCRIPT", "ignore_stop", 1);
  HostOptions given = options();
  given.core.drain_limit = milliseconds(200);
  start(std::move(given));
  join();
  coordinator_.say(assign(1));
  coordinator_.next<Loaded>();
  unsetenv("SCRIPT");
  runtime_->stop();
  const ExitProcess end = ended();
  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.message, HasSubstr("killed"));
}

// ---- trainers outlive it

TEST_F(RuntimeTest, TheNextStartFindsItsTrainersAndWhatTheyHold) {
  serve();
  const auto before = roster();
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(handed_over().code, 0);
  EXPECT_EQ(process_with(before[0].process.pid), before[0].process) << "it continues";
  start(options());
  const Hello hello = coordinator_.hello(2);
  EXPECT_EQ(hello.incarnation.n, 0u) << "a fresh start";
  ASSERT_EQ(hello.replicas.size(), 1u);
  EXPECT_EQ(hello.replicas[0].replica, ReplicaId(1));
  EXPECT_EQ(hello.replicas[0].key, kKey);
  EXPECT_EQ(hello.replicas[0].anchor, (Digest{1, 2}));
  EXPECT_EQ(hello.replicas[0].address, "127.0.0.1:1");
  EXPECT_EQ(hello.devices[0].gflops, 7);
  EXPECT_EQ(roster(), before);
  coordinator_.welcome({ReplicaId(1)});
  EXPECT_EQ(coordinator_.next<Loaded>().key, kKey);
  coordinator_.say(ToReplica<Evaluate>{ReplicaId(1), {kKey, {0, 1, 1}}});  // the script aborts
  const auto failed = coordinator_.next<ReplicaFailed>();
  EXPECT_EQ(failed.detail, "the trainer of device 0 ended: told to evaluate");
}

TEST_F(RuntimeTest, AStopEndsTrainersOfTheLastStartToo) {
  serve();
  const auto before = roster();
  handed_over();
  start(options());
  coordinator_.hello(2);
  coordinator_.welcome({ReplicaId(1)});
  coordinator_.next<Loaded>();
  runtime_->stop();
  EXPECT_EQ(ended().message, "stopped");
  EXPECT_FALSE(process_with(before[0].process.pid).has_value());
}

// Its lines do not end with GPUs.
std::string as_version_2(std::string text) {
  text[text.find('3')] = '2';  // of the heading
  for (auto last = text.find(" =\n"); last != std::string::npos; last = text.find(" =\n", last + 1))
    text.erase(last, 2);
  return text;
}

// As agents of 0.2.0 first wrote it, which had fewer flags.
TEST_F(RuntimeTest, TheTrainersOfTheVersionBeforeGoOn) {
  serve();
  const auto before = roster();
  handed_over();
  Digester digester;
  digester.add(static_cast<std::int32_t>(DeviceKind::kCpu)).add("cpu");
  digester.add("127.0.0.1").add(1).add(1).add(0.5);  // host, threads, group, speed
  digester.add(options().data_roots.to_text()).add("").add(0).add(0);  // line, ports
  const std::string path = folder_.path() + "/agent/trainers";
  auto changed = read_roster(path);
  ASSERT_TRUE(changed.ok());
  changed->settings = to_hex(digester.finish());
  std::ofstream(path) << as_version_2(to_text(*changed));
  start(options());
  ASSERT_EQ(coordinator_.hello(2).replicas.size(), 1u);
  EXPECT_TRUE(process_with(before[0].process.pid).has_value());
}

// The GPU: --devices gpu:1 in place of gpu:0, of the same name.
TEST_F(RuntimeTest, OtherFlagsAndGpusEndTheTrainersOfTheLastStart) {
  serve();
  HostOptions changed = options();
  changed.gpus = {"GPU-aa22"};
  for (int hello = 2; hello < 4; ++hello) {
    const pid_t before = roster()[0].process.pid;
    handed_over();
    start(changed);
    EXPECT_TRUE(coordinator_.hello(hello).replicas.empty());
    EXPECT_FALSE(process_with(before).has_value());
    coordinator_.welcome();
    EXPECT_EQ(coordinator_.next<DeviceMeasured>().device.gflops, changed.speed * 14);
    changed.speed = 0.25;
  }
}

TEST_F(RuntimeTest, ATrainerOfAListThatWasLostIsToldToStop) {
  serve();
  const ProcessId stranger = roster()[0].process;
  handed_over();
  std::promise<void> over;
  auto watched = TrainerProcess::adopt(
      stranger, {{}, {}, {}, folder_.path() + "/stranger.log", [](std::string_view) {}},
      [&over](ProcessExit) { over.set_value(); });
  ASSERT_TRUE(watched.ok());
  std::filesystem::remove(folder_.path() + "/agent/trainers");
  start(options());
  EXPECT_TRUE(coordinator_.hello(2).replicas.empty());
  EXPECT_EQ(over.get_future().wait_for(kLimit), std::future_status::ready);
}

TEST_F(RuntimeTest, ARefusedMachineEndsWithItsOwnCode) {
  coordinator_.turns_away = true;
  start(options());
  const ExitProcess end = ended();
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.message, HasSubstr("this agent was revoked"));
}

TEST_F(RuntimeTest, RefusedEnds) {
  start(options());
  coordinator_.hello(1);
  coordinator_.say(
      Refused{{Code::kIncompatible, "protocol 1 is too old", "protocol", "update the agent"}});
  const ExitProcess end = ended();
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.message, HasSubstr("update the agent"));
}

TEST_F(RuntimeTest, AMissingTrainerIsNamedAtOnce) {
  HostOptions given = options();
  given.trainer = "/nowhere/shoal-trainer";
  const auto runtime = Runtime::open(given);
  ASSERT_FALSE(runtime.ok());
  EXPECT_EQ(runtime.error().field, "--trainer");
}

}  // namespace
}  // namespace shoal::agent
