// The agents' side over a real socket: the first message, malformed messages, an
// assignment, and checkpoint files both ways.
#include "coordinator/service/agent_service.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "coordinator/service/message_budget.h"
#include "coordinator/service/service_test_util.h"
#include "threads/mutex.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

class AgentServiceTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(AgentServiceTest, AnAgentIsWelcomed) {
  TestCoordinator coordinator(folder_.path());
  TestAgent agent(coordinator.channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  const auto welcome = agent.hear_a<Welcome>();
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->incarnation.n, 1u);
  const auto live = coordinator.runtime().live();
  EXPECT_EQ(live->agents.at(welcome->agent).health, Health::kGreen);
  EXPECT_EQ(coordinator.runtime().meters()->runtime.sessions.Value(), 1);
}

TEST_F(AgentServiceTest, AnIncompatibleProtocolIsRefusedWithTheSideToUpgrade) {
  TestCoordinator coordinator(folder_.path());
  TestAgent agent(coordinator.channel());
  Hello hello = TestAgent::hello("one");
  hello.protocol = hello.protocol_min = kProtocolVersion + 1;
  ASSERT_TRUE(agent.say(hello));
  const auto refused = agent.hear_a<Refused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.code, Code::kIncompatible);
  EXPECT_THAT(refused->error.remedy, HasSubstr("coordinator"));
  EXPECT_FALSE(agent.finish().ok());
}

TEST_F(AgentServiceTest, WhoWasRevokedIsToldWithEverything) {
  AgentServiceOptions service;
  service.revoked = [] { return std::vector{AgentId(5), AgentId(9)}; };
  TestCoordinator coordinator(folder_.path(), {}, std::move(service));
  TestAgent agent(coordinator.channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  EXPECT_THAT(agent.revoked, ::testing::ElementsAre(5U, 9U));
}

TEST_F(AgentServiceTest, TheFirstMessageMustBeHello) {
  TestCoordinator coordinator(folder_.path());
  TestAgent agent(coordinator.channel());
  agent.say(FromAgent(Heartbeat{}));
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(coordinator.runtime().meters()->runtime.refused_messages.Value(), 1);
}

TEST_F(AgentServiceTest, AMalformedMessageEndsTheStreamAndIsCounted) {
  TestCoordinator coordinator(folder_.path());
  TestAgent agent(coordinator.channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  agent.say_raw({});
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(coordinator.runtime().meters()->runtime.refused_messages.Value(), 1);
}

TEST_F(AgentServiceTest, ReducesThatFailAreCountedByTheirReason) {
  TestCoordinator coordinator(folder_.path());
  TestAgent agent(coordinator.channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  const RoundKey key{JobId(1), 0, 1};
  for (const ReduceFailure why :
       {ReduceFailure::kBadFrame, ReduceFailure::kBadFrame, ReduceFailure::kPlanMismatch}) {
    ASSERT_TRUE(agent.say(FromAgent(
        FromReplica<ReduceFailed>{ReplicaId(1), {key, 1, ReplicaId(2), why, "simulated"}})));
  }
  agent.say_raw({});  // malformed: the stream ends, and what was said before is handled before
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(submit_and_wait(coordinator.runtime(), small_job("first")).result.ok());
  const auto& failures = coordinator.runtime().meters()->runtime.reduce_failures;
  EXPECT_EQ(failures[ReduceFailure::kBadFrame].Value(), 2);
  EXPECT_EQ(failures[ReduceFailure::kPlanMismatch].Value(), 1);
  EXPECT_EQ(failures[ReduceFailure::kPeerLost].Value(), 0);
}

TEST_F(AgentServiceTest, AStreamWithoutHelloIsClosed) {
  TestCoordinator coordinator(folder_.path(), {}, {.hello_limit = std::chrono::milliseconds(20)});
  TestAgent agent(coordinator.channel());
  EXPECT_EQ(agent.finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(AgentServiceTest, AnAgentThatReturnsTakesItsOldPlace) {
  TestCoordinator coordinator(folder_.path());
  TestAgent first(coordinator.channel());
  ASSERT_TRUE(first.say(TestAgent::hello("one")));
  const auto welcome = first.hear_a<Welcome>();
  ASSERT_TRUE(welcome);
  TestAgent second(coordinator.channel());
  Hello hello = TestAgent::hello("one");
  hello.incarnation = welcome->incarnation;
  ASSERT_TRUE(second.say(hello));
  const auto again = second.hear_a<Welcome>();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->agent, welcome->agent);
  EXPECT_EQ(again->incarnation, welcome->incarnation);
  EXPECT_FALSE(first.finish().ok());
}

TEST_F(AgentServiceTest, OneAgentHasFewSessions) {
  const auto door = std::make_shared<OpenDoor>();
  TestCoordinator coordinator(folder_.path(), {}, {.door = door});
  door->machine = AgentId(7);
  std::vector<std::unique_ptr<TestAgent>> silent;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(9);  // until a Hello
  for (int i = 1; i <= 5; ++i) {
    silent.push_back(std::make_unique<TestAgent>(coordinator.channel()));
    while (coordinator.runtime().meters()->runtime.sessions.Value() < i) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
    }
  }
  EXPECT_EQ(silent.front()->finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(silent.back()->say(TestAgent::hello("one")));
  EXPECT_TRUE(silent.back()->hear_a<Welcome>());
}

// The rest of what it says waits on its own side of the line.
TEST_F(AgentServiceTest, AMachineThatFloodsIsReadByItsBudget) {
  const auto door = std::make_shared<OpenDoor>();
  TestCoordinator coordinator(folder_.path(), {}, {.door = door});
  door->machine = AgentId(7);
  TestAgent agent(coordinator.channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  const auto begun = MessageBudget::Clock::now();
  for (std::int64_t n = 1; n <= 1200; ++n) {
    if (!agent.say(FromAgent(Heartbeat{.sequence = n}))) break;
    const std::chrono::duration<double> passed = MessageBudget::Clock::now() - begun;
    const double most = MessageBudget::kPerSecond * (MessageBudget::kBurstSeconds + passed.count());
    ASSERT_LE(coordinator.runtime().meters()->runtime.heartbeats.Value(), most + 1);
  }
  const auto limit = begun + std::chrono::seconds(30);
  while (coordinator.runtime().meters()->runtime.heartbeats.Value() < 1200) {
    ASSERT_LT(MessageBudget::Clock::now(), limit) << "it is read on";
  }
  const std::chrono::duration<double> took = MessageBudget::Clock::now() - begun;
  EXPECT_GE(took.count(), 2.5);
}

TEST_F(AgentServiceTest, ASubmittedJobReachesTheAgentAndItsProgressTheView) {
  TestCoordinator coordinator(folder_.path(), {.gather_window = milliseconds(1)});
  TestAgent agent(coordinator.channel());
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  ASSERT_TRUE(agent.hear_a<Welcome>());
  const JobSpec spec = small_job("first");
  ASSERT_TRUE(submit_and_wait(coordinator.runtime(), spec).result.ok());
  const auto assign = agent.hear_a<Assign>();
  ASSERT_TRUE(assign);
  EXPECT_EQ(assign->spec, for_agents(spec));
  const Loaded loaded{.replica = assign->replica,
                      .key = {assign->job, 0, 0},
                      .anchor = {1, 2},
                      .momentum = {3, 4},
                      .value_count = 1000,
                      .address = "127.0.0.1:7100"};
  ASSERT_TRUE(agent.say(FromAgent(loaded)));
  const auto open = agent.hear_a<ToReplica<OpenRound>>();
  ASSERT_TRUE(open);
  EXPECT_EQ(open->body.key.round, 1);
  const Progress progress{.replica = assign->replica,
                          .key = open->body.key,
                          .step = Steps(3),
                          .tokens = Tokens(99),
                          .train_loss = 5.5};
  ASSERT_TRUE(agent.say(FromAgent(progress)));
  // The answer to a later message tells that the earlier one was handled.
  ASSERT_TRUE(agent.say(FromAgent(FromReplica<RoundReport>{
      assign->replica,
      {.key = open->body.key, .tokens = Tokens(100), .steps = Steps(10), .norm = 1}})));
  ASSERT_TRUE(agent.hear_a<ToReplica<ReducePlan>>());
  const auto points = coordinator.store().reader()->series_of(assign->job);
  ASSERT_TRUE(points.ok());
}

// Stands where the runtime stands and remembers what it was told.
class RecordingInputs final : public InputPort {
 public:
  bool post(Input input) override {
    const MutexLock guard(mutex_);
    if (stopping_) return false;
    posted_.push_back(std::move(input));
    return true;
  }
  bool has_replica(AgentId agent, ReplicaId replica) override {
    return agent == AgentId(1) && replica == ReplicaId(1);
  }
  std::int64_t replicas_of(AgentId) override { return 0; }
  bool works_for(AgentId agent, JobId) override { return agent == AgentId(1); }
  bool begins_from(AgentId agent, CheckpointId, JobId) override { return agent == AgentId(3); }
  bool continues_from(AgentId agent, CheckpointId) override { return agent == AgentId(4); }
  void count_session() override {}
  void count_refused_message() override {}
  std::optional<ReplicaPlace> place_of(ReplicaId replica) override {
    if (replica == ReplicaId(5)) return ReplicaPlace{AgentId(), JobId(2), 1, 3};
    if (replica == ReplicaId(6)) return ReplicaPlace{AgentId(9), JobId(2), 1, 3};
    return std::nullopt;
  }

  void stop() {
    const MutexLock guard(mutex_);
    stopping_ = true;
  }
  template <typename Kind>
  int count() {
    const MutexLock guard(mutex_);
    return static_cast<int>(std::ranges::count_if(
        posted_, [](const Input& input) { return std::holds_alternative<Kind>(input); }));
  }
  template <typename Kind>
  Kind last() {
    const MutexLock guard(mutex_);
    Kind found;
    for (const Input& input : posted_) {
      if (const auto* kind = std::get_if<Kind>(&input)) found = *kind;
    }
    return found;
  }

 private:
  Mutex mutex_;
  std::vector<Input> posted_ SHOAL_GUARDED_BY(mutex_);
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
};

// ---- lines

TEST(AgentLine, IsMeasuredOverTheStreamOfTheAgent) {
  const TemporaryFolder folder;
  RecordingInputs inputs;
  const auto files = std::move(CheckpointFiles::open(folder.path())).value();
  const auto service =
      std::move(AgentService::start({.bind = "127.0.0.1:0", .door = std::make_shared<OpenDoor>()},
                                    inputs, *files, {}))
          .value();
  TestAgent agent(grpc::CreateChannel(service->address(), grpc::InsecureChannelCredentials()));
  ASSERT_TRUE(agent.say(TestAgent::hello("one")));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  while (inputs.count<AgentHello>() == 0) ASSERT_LT(std::chrono::steady_clock::now(), limit);
  service->measure_line(ConnectionId{1});
  std::thread answers([&] {
    while (const auto asked = agent.hear_a<MeasureLine>()) {
      agent.say(FromAgent(LineMeasured{line_payload(asked->id, asked->answer_bytes), asked->id}));
    }
  });
  while (inputs.count<HostLineMeasured>() == 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  service->stop();
  answers.join();
  ASSERT_EQ(inputs.count<HostLineMeasured>(), 1);
  EXPECT_EQ(inputs.count<AgentSaid>(), 0) << "payloads go no further";
  const HostLine line = inputs.last<HostLineMeasured>().line;
  EXPECT_GT(line.round_trip.ns, 0);
  EXPECT_GT(line.up, 0);
  EXPECT_GT(line.down, 0);
}

// ---- checkpoints

class CheckpointTransferTest : public ::testing::Test {
 protected:
  static constexpr CheckpointId kId{1};
  static FileEntry entry(const std::string& path, const std::string& content) {
    return {path, Bytes(static_cast<std::int64_t>(content.size())), sha256_of(content)};
  }
  // A stored checkpoint of two stages, each with the contents of its files back to back.
  void store_stages(const std::vector<FileEntry>& first, const std::string& first_content,
                    const std::vector<FileEntry>& second, const std::string& second_content) {
    record_.parts.resize(2);
    record_.parts[0].files = first;
    record_.parts[1] = {
        .writer = ReplicaId(1), .state = CheckpointState::kUploading, .files = second};
    service_->checkpoint_changed(record_);
    ASSERT_TRUE(put(second, second_content).ok());
    ASSERT_TRUE(put(first, first_content).ok());
    change(CheckpointState::kStored);
  }
  static std::vector<FileEntry> files_of_part() {
    return {entry("config.json", "{}"), entry("model.bin", std::string(3'000'000, 'w'))};
  }
  void SetUp() override {
    record_ = {.id = kId, .state = CheckpointState::kUploading};
    record_.parts.resize(1);
    record_.parts[0].state = record_.state;
    record_.parts[0].files = files_of_part();
    files_ = std::move(CheckpointFiles::open(folder_.path())).value();
    record_.parts[0].writer = ReplicaId(1);
    door_->machine = AgentId(1);
    service_ = std::move(AgentService::start({.bind = "127.0.0.1:0", .door = door_}, inputs_,
                                             *files_, {record_}))
                   .value();
    stub_ = v1::AgentService::NewStub(
        grpc::CreateChannel(service_->address(), grpc::InsecureChannelCredentials()));
  }
  void change(CheckpointState state) {
    record_.state = record_.parts[0].state = state;
    service_->checkpoint_changed(record_);
  }
  void wait_for_bytes(std::size_t bytes) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::error_code missing;
    const std::string file = files_->folder(kId) + ".0.upload/model.bin";
    while (std::filesystem::file_size(file, missing) < bytes || missing) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
    }
  }
  // Breaks off once `cut_after` bytes lie on the coordinator's disk.
  grpc::Status put(const std::vector<FileEntry>& files, const std::string& content,
                   std::size_t cut_after = std::string::npos) {
    grpc::ClientContext context;
    TestAgent::prepare(context);
    auto writer = stub_->PutCheckpoint(&context);
    v1::CheckpointUpload message;
    v1::CheckpointReceived answer;
    message.mutable_header()->set_checkpoint(kId.n);
    for (const FileEntry& file : files)
      *message.mutable_header()->add_files() = proto::to_wire(file);
    bool open = writer->Write(message) && writer->Read(&answer);
    went_on_at_ = answer.bytes();
    for (auto at = static_cast<std::size_t>(went_on_at_); open && at < content.size();) {
      if (at >= cut_after) {
        wait_for_bytes(at - 2);  // that of the model
        context.TryCancel();
      }
      message.mutable_chunk()->set_data(content.substr(at, 1'000'000));
      at += message.chunk().data().size();
      open = writer->Write(message);
    }
    writer->WritesDone();
    while (writer->Read(&answer)) {
    }
    return writer->Finish();
  }
  // All files that the agent of this certificate gets for a stage, back to back.
  std::string got_by(AgentId agent, StageIndex stage, std::int32_t parts = 0) {
    door_->machine = agent;
    grpc::ClientContext context;
    TestAgent::prepare(context);
    v1::GetCheckpointRequest request;
    request.set_checkpoint(kId.n);
    request.set_stage(stage);
    request.set_parts(parts);
    auto reader = stub_->GetCheckpoint(&context, request);
    std::string received;
    for (v1::CheckpointUpload message; reader->Read(&message);) {
      received += message.chunk().data();
    }
    EXPECT_TRUE(reader->Finish().ok());
    return received;
  }
  std::int64_t went_on_at_ = 0;
  std::string content() const { return "{}" + std::string(3'000'000, 'w'); }

  TemporaryFolder folder_;
  RecordingInputs inputs_;
  std::shared_ptr<OpenDoor> door_ = std::make_shared<OpenDoor>();
  CheckpointRecord record_;
  std::unique_ptr<CheckpointFiles> files_;
  std::unique_ptr<AgentService> service_;
  std::unique_ptr<v1::AgentService::Stub> stub_;
};

TEST_F(CheckpointTransferTest, FilesGoThereAndBack) {
  const grpc::Status stored = put(files_of_part(), content());
  ASSERT_TRUE(stored.ok()) << stored.error_message();
  EXPECT_EQ(inputs_.count<CheckpointUploaded>(), 1);
  change(CheckpointState::kStored);
  grpc::ClientContext context;
  TestAgent::prepare(context);
  v1::GetCheckpointRequest request;
  request.set_checkpoint(kId.n);
  auto reader = stub_->GetCheckpoint(&context, request);
  v1::CheckpointUpload message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.header().files_size(), 2);
  std::string received;
  while (reader->Read(&message)) received += message.chunk().data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(received, content());
  EXPECT_TRUE(
      put(files_of_part(), content()).ok());  // a repeated upload is answered, not stored again
  EXPECT_EQ(inputs_.count<CheckpointUploaded>(), 1);
  service_->delete_checkpoint_files(kId);
  EXPECT_FALSE(std::filesystem::exists(files_->folder(kId)));
}

TEST_F(CheckpointTransferTest, ABrokenUploadGoesOnWhereItWas) {
  EXPECT_EQ(put(files_of_part(), content(), 2'000'000).error_code(), grpc::StatusCode::CANCELLED);
  // The stream that broke may still be ending: it is told to, and the agent comes again.
  grpc::Status again;
  do {
    again = put(files_of_part(), content());
  } while (again.error_code() == grpc::StatusCode::ABORTED);
  ASSERT_TRUE(again.ok()) << again.error_message();
  EXPECT_GE(went_on_at_, 2'000'000);
  EXPECT_EQ(inputs_.count<CheckpointUploaded>(), 1);
  EXPECT_EQ(inputs_.count<CheckpointUploadFailed>(), 0);
  EXPECT_GE(inputs_.count<CheckpointMoved>(), 2);
}

TEST_F(CheckpointTransferTest, ADownloadGoesOnWhereTheAgentIs) {
  ASSERT_TRUE(put(files_of_part(), content()).ok());
  change(CheckpointState::kStored);
  const auto get = [&](std::int64_t from, const std::string& list) {
    grpc::ClientContext context;
    TestAgent::prepare(context);
    v1::GetCheckpointRequest request;
    request.set_checkpoint(kId.n);
    request.set_from(from);
    request.set_list(list);
    auto reader = stub_->GetCheckpoint(&context, request);
    v1::CheckpointUpload message;
    EXPECT_TRUE(reader->Read(&message));
    std::pair<std::int64_t, std::string> got(message.header().from(), "");
    while (reader->Read(&message)) got.second += message.chunk().data();
    EXPECT_TRUE(reader->Finish().ok());
    return got;
  };
  const std::string list = list_digest(files_of_part());
  EXPECT_EQ(get(2'999'999, list), std::pair(std::int64_t{2'999'999}, std::string("www")));
  EXPECT_EQ(get(3'000'002, list).second, "");
  EXPECT_EQ(get(2'999'999, "another").first, 0) << "it has something of other files";
}

TEST_F(CheckpointTransferTest, AReplicaGetsTheFilesOfItsStageAndTheSharedOnes) {
  const std::vector<FileEntry> first{entry("config.json", "{}"),
                                     entry("model-00001-of-00002.safetensors", "one")};
  const std::vector<FileEntry> second{entry("model-00002-of-00002.safetensors", "two")};
  record_.parts.resize(2);
  record_.parts[0].files = first;
  record_.parts[1] = {
      .writer = ReplicaId(1), .state = CheckpointState::kUploading, .files = second};
  service_->checkpoint_changed(record_);
  ASSERT_TRUE(put(second, "two").ok());
  ASSERT_TRUE(put(first, "{}one").ok());
  EXPECT_EQ(inputs_.count<CheckpointUploaded>(), 2);
  change(CheckpointState::kStored);
  grpc::ClientContext context;
  TestAgent::prepare(context);
  v1::GetCheckpointRequest request;
  request.set_checkpoint(kId.n);
  request.set_stage(1);
  auto reader = stub_->GetCheckpoint(&context, request);
  v1::CheckpointUpload message;
  ASSERT_TRUE(reader->Read(&message));
  ASSERT_EQ(message.header().files_size(), 2);
  EXPECT_EQ(message.header().files(1).path(), "model-00002-of-00002.safetensors");
  std::string received;
  while (reader->Read(&message)) received += message.chunk().data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(received, "{}two");
}

// Whatever the cut of that job is, and without what only this one continues with.
TEST_F(CheckpointTransferTest, ReplicasOfOtherJobsGetWhatTheyBeginOrContinueWith) {
  const std::vector<FileEntry> first{entry("config.json", "{}"),
                                     entry("model-00001-of-00002.safetensors", "one"),
                                     entry("shoal_state-00001-of-00002.safetensors", "m")};
  const std::vector<FileEntry> second{entry("model-00002-of-00002.safetensors", "two"),
                                      entry("shoal_state-00002-of-00002.safetensors", "m")};
  store_stages(first, "{}onem", second, "twom");
  EXPECT_EQ(got_by(AgentId(3), 4), "{}onetwo");
  EXPECT_EQ(got_by(AgentId(4), 1), "{}twom") << "it continues: all of its stage";
}

TEST_F(CheckpointTransferTest, RolesSayWhatReplicasGet) {
  const auto with_role = [](const std::string& path, const std::string& content,
                            const std::string& role) {
    FileEntry file = entry(path, content);
    file.role = role;
    return file;
  };
  const std::vector<FileEntry> first{with_role("config.json", "{}", "description"),
                                     with_role("a", "one", "weights"),
                                     with_role("b", "m", "outer/momentum"),
                                     with_role("c", "i", "inner/optimizer"),
                                     with_role("d", "x", "buffers"),
                                     with_role("g", "k", "object/schedule"),
                                     with_role("h", "w", "file/words"),
                                     with_role("part-00.json", "[0]", "part")};
  const std::vector<FileEntry> second{with_role("e", "two", "weights"),
                                      with_role("f", "n", "outer/momentum"),
                                      with_role("part-01.json", "[1]", "part")};
  store_stages(first, "{}onemixkw[0]", second, "twon[1]");
  EXPECT_EQ(got_by(AgentId(3), 4), "{}onex[0]two[1]") << "it begins with the weights";
  EXPECT_EQ(got_by(AgentId(4), 1), "{}[0]twon[1]") << "it continues: all of its stage";
  EXPECT_EQ(got_by(AgentId(4), 0, 2), "{}onemixkw[0]twon[1]") << "its stage is of another cut";
}

TEST_F(CheckpointTransferTest, OthersNeitherUploadNorGetIt) {
  door_->machine = AgentId(2);
  EXPECT_EQ(put(files_of_part(), content()).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(inputs_.count<CheckpointUploadFailed>(), 0) << "what they send says nothing about it";
  EXPECT_EQ(inputs_.count<CheckpointMoved>(), 0);
  change(CheckpointState::kStored);
  grpc::ClientContext context;
  TestAgent::prepare(context);
  v1::GetCheckpointRequest request;
  request.set_checkpoint(kId.n);
  auto reader = stub_->GetCheckpoint(&context, request);
  v1::CheckpointUpload message;
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(CheckpointTransferTest, AnUploadThatOvertakesItsAnnouncementWaitsForIt) {
  change(CheckpointState::kWriting);
  auto upload = std::async(std::launch::async, [&] { return put(files_of_part(), content()); });
  change(CheckpointState::kUploading);
  EXPECT_TRUE(upload.get().ok());
}

TEST_F(CheckpointTransferTest, AFileListOtherThanAnnouncedIsRefused) {
  auto files = files_of_part();
  files.pop_back();
  EXPECT_EQ(put(files, "{}").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(CheckpointTransferTest, CorruptedBytesAreRefusedReportedAndLeaveNothing) {
  std::string bytes = content();
  bytes[100] = 'x';
  EXPECT_EQ(put(files_of_part(), bytes).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(inputs_.count<CheckpointUploadFailed>(), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(CheckpointTransferTest, ACoordinatorThatStopsAsksForTheUploadAgain) {
  inputs_.stop();
  EXPECT_EQ(put(files_of_part(), content()).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CheckpointTransferTest, AnUnknownCheckpointIsNotFound) {
  change(CheckpointState::kFailed);
  EXPECT_EQ(put(files_of_part(), content()).error_code(), grpc::StatusCode::NOT_FOUND);
}

// The agent says a number; the name in the certificate is the coordinator's.
TEST(Certify, AnAgentGetsCertificatesForItsOwnReplicasOnly) {
  TemporaryFolder folder;
  RecordingInputs inputs;
  auto files = std::move(CheckpointFiles::open(folder.path())).value();
  std::vector<std::pair<identity::ReplicaName, std::string>> asked;
  AgentServiceOptions options{.bind = "127.0.0.1:0", .door = std::make_shared<OpenDoor>()};
  options.certify = [&](const identity::ReplicaName& replica,
                        const std::string& request) -> Result<IssuedCertificate> {
    asked.emplace_back(replica, request);
    if (request == "bad") return Error{Code::kInvalidArgument, "is no request", "csr", ""};
    return IssuedCertificate{replica.agent, "reef", "a chain", "roots"};
  };
  const auto service = std::move(AgentService::start(options, inputs, *files, {})).value();
  const auto stub = v1::AgentService::NewStub(
      grpc::CreateChannel(service->address(), grpc::InsecureChannelCredentials()));
  v1::CertifyAnswer answer;
  const auto certify = [&](std::uint64_t replica, const std::string& csr) {
    grpc::ClientContext context;
    TestAgent::prepare(context);
    v1::CertifyRequest request;
    request.set_replica(replica);
    request.set_csr(csr);
    return stub->Certify(&context, request, &answer).error_code();
  };
  EXPECT_EQ(certify(5, "a request"), grpc::StatusCode::OK);
  EXPECT_EQ(answer.chain(), "a chain");
  EXPECT_EQ(answer.roots(), "roots");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].first, (identity::ReplicaName{AgentId(), JobId(2), 1, 3, ReplicaId(5)}));
  EXPECT_EQ(certify(6, "a request"), grpc::StatusCode::NOT_FOUND);  // another agent's
  EXPECT_EQ(certify(7, "a request"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(certify(5, "bad"), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace shoal::coordinator
