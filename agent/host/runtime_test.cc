// The whole host side against a coordinator that the test plays: sessions, trainers, checkpoint
// files.
#include "agent/host/runtime.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"
#include "agent/host/roster.h"
#include "agent/host/trainer_process.h"
#include "base/sha256.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "proto/convert_logs.h"
#include "proto/logs.grpc.pb.h"
#include "threads/mutex.h"
#include "transfer/files.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;
constexpr std::chrono::seconds kLimit{30};
const RoundKey kKey{JobId(1), 0, 3};

// The other service of the coordinator: asks one question of the first stream that opens.
class LogReader final : public v1::LogService::Service {
 public:
  grpc::Status Answer(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::LogQuestion, v1::LogAnswer>* stream) override {
    v1::LogAnswer answer;
    if (!stream->Read(&answer)) return grpc::Status::OK;
    const MutexLock guard(mutex_);
    agent_ = AgentId(answer.agent());
    while (!context->IsCancelled()) {
      if (!changed_.wait_for(mutex_, std::chrono::milliseconds(10),
                             [&]() SHOAL_REQUIRES(mutex_) { return asked_; }))
        continue;
      asked_ = false;
      stream->Write(proto::to_wire(1, LogQuery{}));
      if (!stream->Read(&answer)) break;
      page_ = proto::read(answer);
      changed_.notify_all();
    }
    return grpc::Status::OK;
  }

  // Everything that the agent's journal holds.
  std::string read() {
    const MutexLock guard(mutex_);
    page_.reset();
    asked_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(mutex_, kLimit,
                           [&]() SHOAL_REQUIRES(mutex_) { return page_.has_value(); }))
      return "no answer";
    std::string text;
    for (const LogLine& line : page_->value().lines) {
      text += line.source + " " + (line.replica ? to_string(line.replica) : "-") + " " + line.text +
              "\n";
    }
    return text;
  }
  AgentId agent() {
    const MutexLock guard(mutex_);
    return agent_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  AgentId agent_ SHOAL_GUARDED_BY(mutex_);
  bool asked_ SHOAL_GUARDED_BY(mutex_) = false;
  std::optional<Result<LogPage>> page_ SHOAL_GUARDED_BY(mutex_);
};

// Speaks for the coordinator on one session at a time; a test reads what it heard.
class Coordinator : public v1::AgentService::Service {
 public:
  Coordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    builder.RegisterService(&logs);
    server_ = builder.BuildAndStart();
  }
  ~Coordinator() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
  LogReader logs;
  std::atomic<bool> turns_away{false};

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>* stream) override {
    if (turns_away) return {grpc::StatusCode::UNAUTHENTICATED, "this agent was revoked"};
    v1::AgentMessage wire;
    if (!stream->Read(&wire)) return grpc::Status::OK;
    {
      const MutexLock guard(mutex_);
      hellos_.push_back(*proto::read_hello(wire));
      context_ = context;
      stream_ = stream;
      changed_.notify_all();
    }
    while (stream->Read(&wire)) {
      auto message = proto::read(wire);
      EXPECT_TRUE(message.ok());
      const MutexLock guard(mutex_);
      heard_.push_back(std::move(message).value());
      changed_.notify_all();
    }
    const MutexLock guard(mutex_);
    stream_ = nullptr;
    changed_.notify_all();
    return grpc::Status::OK;
  }

  // Breaks off the first stream after `cut_after` bytes, as if the line had been lost.
  grpc::Status PutCheckpoint(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CheckpointReceived, v1::CheckpointUpload>* stream) override {
    v1::CheckpointUpload message;
    EXPECT_TRUE(stream->Read(&message) && message.has_header());
    const auto say_received = [&] {
      v1::CheckpointReceived received;
      {
        const MutexLock guard(mutex_);
        received.set_bytes(static_cast<std::int64_t>(partly_.size()));
      }
      stream->Write(received);
    };
    say_received();
    while (stream->Read(&message)) {
      {
        const MutexLock guard(mutex_);
        partly_ += message.chunk().data();
        if (cut_after_ == 0) continue;
        partly_.resize(std::exchange(cut_after_, 0));
      }
      say_received();
      return {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    const MutexLock guard(mutex_);
    uploaded_ = partly_;
    changed_.notify_all();
    return grpc::Status::OK;
  }
  void cut_uploads_after(std::size_t bytes) {
    const MutexLock guard(mutex_);
    cut_after_ = bytes;
  }

  grpc::Status GetCheckpoint(grpc::ServerContext*, const v1::GetCheckpointRequest* request,
                             grpc::ServerWriter<v1::CheckpointUpload>* writer) override {
    if (request->checkpoint() != 8)
      return {grpc::StatusCode::NOT_FOUND, "there is no such checkpoint"};
    const std::vector<FileEntry> files = {{"model.safetensors", Bytes(7), sha256_of("weights")}};
    const bool resumes = request->list() == list_digest(files);
    const auto from = static_cast<std::size_t>(resumes ? request->from() : 0);
    v1::CheckpointUpload message;
    message.mutable_header()->set_from(static_cast<std::int64_t>(from));
    *message.mutable_header()->add_files() = proto::to_wire(files[0]);
    writer->Write(message);
    const bool cut = from == 0 && cut_downloads_;
    message.mutable_chunk()->set_data(std::string("weights").substr(from, cut ? 3 : 7));
    writer->Write(message);
    fetched_from_ = from;
    return cut ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut") : grpc::Status::OK;
  }
  void cut_downloads() { cut_downloads_ = true; }
  std::size_t fetched_from() const { return fetched_from_; }

  // The n-th Hello since the start, once it came.
  Hello hello(std::size_t n) {
    const MutexLock guard(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kLimit, [&]() SHOAL_REQUIRES(mutex_) {
      return hellos_.size() >= n && stream_ != nullptr;
    }));
    return hellos_.size() >= n ? hellos_[n - 1] : Hello{};
  }
  void say(const ToAgent& message) { say(proto::to_wire(message)); }
  void say(const v1::CoordinatorMessage& wire) {
    const MutexLock guard(mutex_);
    if (stream_ != nullptr) stream_->Write(wire);
  }
  void welcome(std::vector<ReplicaId> keep = {}) {
    say(Welcome{AgentId(1), {5}, milliseconds(50), seconds(10), std::move(keep)});
  }
  void break_session() {
    const MutexLock guard(mutex_);
    context_->TryCancel();
  }
  // The next message of a kind; others before it are dropped.
  template <typename Body>
  Body next() {
    const MutexLock guard(mutex_);
    for (;;) {
      if (!changed_.wait_for(mutex_, kLimit,
                             [&]() SHOAL_REQUIRES(mutex_) { return !heard_.empty(); })) {
        ADD_FAILURE() << "nothing was heard";
        return {};
      }
      const FromAgent message = std::move(heard_.front());
      heard_.pop_front();
      if (const auto* body = std::get_if<Body>(&message)) return *body;
    }
  }
  std::string uploaded() {
    const MutexLock guard(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kLimit,
                                  [&]() SHOAL_REQUIRES(mutex_) { return !uploaded_.empty(); }));
    return uploaded_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Hello> hellos_ SHOAL_GUARDED_BY(mutex_);
  std::deque<FromAgent> heard_ SHOAL_GUARDED_BY(mutex_);
  std::string uploaded_ SHOAL_GUARDED_BY(mutex_);
  std::string partly_ SHOAL_GUARDED_BY(mutex_);
  std::size_t cut_after_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> cut_downloads_{false};
  std::atomic<std::size_t> fetched_from_{0};
  grpc::ServerContext* context_ SHOAL_GUARDED_BY(mutex_) = nullptr;
  grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>* stream_ = nullptr;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class RuntimeTest : public testing::Test {
 protected:
  ~RuntimeTest() override {
    if (!thread_.joinable()) return;
    runtime_->stop();
    runtime_->stop();
    thread_.join();
  }

  HostOptions options() {
    HostOptions options;
    options.coordinator = {coordinator_.address(),
                           [] { return grpc::InsecureChannelCredentials(); }};
    options.core.name = "node";
    options.core.version = "test";
    options.core.host = "127.0.0.1";
    options.core.devices = {{0, DeviceKind::kCpu, "cpu", Bytes(1 << 30), 0, false}};
    options.core.reconnect_first = options.core.reconnect_cap = milliseconds(50);
    options.core.restart_first = options.core.restart_cap = milliseconds(50);
    options.core.upload_first = options.core.upload_cap = milliseconds(50);
    options.data_dir = folder_.path() + "/agent";
    options.speed = 0.5;  // of the 14 GFLOP/s of the scripted trainer
    options.trainer = SCRIPTED_TRAINER;
    return options;
  }
  void start(HostOptions options) {
    auto runtime = Runtime::open(std::move(options));
    ASSERT_TRUE(runtime.ok()) << to_string(runtime.error());
    runtime_ = std::move(runtime).value();
    thread_ = std::thread([this] { end_ = runtime_->run(); });
  }
  void join() {
    coordinator_.hello(1);
    coordinator_.welcome();
  }
  ExitProcess ended() {
    thread_.join();
    return end_;
  }
  // Ends and leaves its trainers to the next start.
  ExitProcess handed_over() {
    runtime_->hand_over();
    const ExitProcess end = ended();
    runtime_.reset();
    return end;
  }
  std::string journal() const {
    std::ifstream file(folder_.path() + "/agent/logs/agent.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<RosterEntry> roster() const {
    const auto read = read_roster(folder_.path() + "/agent/trainers");
    EXPECT_TRUE(read.ok());
    return read.ok() ? read->trainers : std::vector<RosterEntry>();
  }
  static Assign assign(std::uint64_t replica) {
    Assign message{.replica = ReplicaId(replica), .job = JobId(1)};
    message.cut = {{0, static_cast<std::int32_t>(message.spec.model.layers) + 2}};
    message.spec.name = "kjv";
    message.spec.data.train = "/data";
    message.source.key = message.record.key = kKey;
    return message;
  }
  static Assign assign_from(CheckpointId checkpoint) {
    Assign message = assign(1);
    message.source.kind = SourceKind::kCheckpoint;
    message.source.checkpoint = checkpoint;
    return message;
  }
  void serve() {
    start(options());
    join();
    coordinator_.say(assign(1));
    EXPECT_EQ(coordinator_.next<Loaded>().replica, ReplicaId(1));
  }

  TestFolder folder_;
  Coordinator coordinator_;
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
  ExitProcess end_;
};

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
  ASSERT_TRUE(write_roster(path, *changed).ok());
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
