// An agent without a way to the object store, played by hand, against a real S3 server.
#include "coordinator/service/checkpoint_carriage.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/sha256.h"
#include "coordinator/service/agent_service.h"
#include "coordinator/service/service_test_util.h"
#include "objects/s3_server_test_util.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

constexpr CheckpointId kId{1};
constexpr std::int64_t kPart = std::int64_t{5} << 20;

// One agent does all of it.
class OneAgent final : public InputPort {
 public:
  bool post(Input) override { return true; }
  bool has_replica(AgentId, ReplicaId) override { return true; }
  std::int64_t replicas_of(AgentId) override { return 0; }
  bool works_for(AgentId, JobId) override { return true; }
  bool begins_from(AgentId, CheckpointId, JobId) override { return false; }
  bool continues_from(AgentId, CheckpointId) override { return false; }
  void count_session() override {}
  void count_refused_message() override {}
  std::optional<ReplicaPlace> place_of(ReplicaId) override { return std::nullopt; }
};

class CheckpointCarriageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!server_.is_installed()) GTEST_SKIP() << "python3-swift is not installed (./dev deps)";
    record_ = {.id = kId, .state = CheckpointState::kUploading};
    record_.parts.resize(1);
    record_.parts[0] = {.writer = ReplicaId(1), .state = record_.state, .files = list()};
    files_ = std::move(CheckpointFiles::open(folder_.path())).value();
    bucket_ = std::make_unique<CheckpointBucket>(
        server_.bucket("carried", {.tries = 2, .pause_first = milliseconds(1)}), folder_.path(),
        meters_);
    door_->machine = AgentId(1);
    service_ = std::move(AgentService::start(
                             {.bind = "127.0.0.1:0", .door = door_, .bucket = bucket_.get()},
                             inputs_, *files_, {record_}))
                   .value();
    stub_ = v1::AgentService::NewStub(
        grpc::CreateChannel(service_->address(), grpc::InsecureChannelCredentials()));
  }
  static std::string large() {
    std::string text(11'000'000, ' ');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 7);
    return text;
  }
  static std::string content() { return "{}" + large() + "last"; }
  static FileEntry entry(const std::string& path, const std::string& text) {
    return {path, Bytes(static_cast<std::int64_t>(text.size())), sha256_of(text)};
  }
  static std::vector<FileEntry> list() {
    return {entry("config.json", "{}"), entry("model.bin", large()), entry("empty", ""),
            entry("tail", "last")};
  }

  // What an agent says before it sends the files of list().
  static v1::CheckpointUpload announced() {
    v1::CheckpointUpload message;
    message.mutable_header()->set_checkpoint(kId.n);
    for (const FileEntry& file : list())
      *message.mutable_header()->add_files() = proto::to_wire(file);
    return message;
  }

  // Sends chunks from where it is told to, at most to byte `until`. Returns where that was.
  std::int64_t put(std::int64_t until, grpc::Status& status) {
    grpc::ClientContext context;
    TestAgent::prepare(context);
    const auto stream = stub_->PutCheckpoint(&context);
    v1::CheckpointUpload message = announced();
    v1::CheckpointReceived answer;
    EXPECT_TRUE(stream->Write(message) && stream->Read(&answer));
    const std::int64_t from = answer.bytes();
    const std::string whole = content();
    for (std::int64_t at = from; at < until; at += message.chunk().data().size()) {
      const auto size = static_cast<std::size_t>(std::min<std::int64_t>(1'000'000, until - at));
      message.mutable_chunk()->set_data(whole.substr(static_cast<std::size_t>(at), size));
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    while (stream->Read(&answer)) {
    }
    status = stream->Finish();
    return from;
  }
  std::string get(std::int64_t from) {
    grpc::ClientContext context;
    TestAgent::prepare(context);
    v1::GetCheckpointRequest request;
    request.set_checkpoint(kId.n);
    request.set_from(from);
    request.set_list(list_digest(list()));
    const auto reader = stub_->GetCheckpoint(&context, request);
    std::string received;
    for (v1::CheckpointUpload message; reader->Read(&message);) {
      EXPECT_FALSE(message.header().by_requests());
      received += message.chunk().data();
    }
    EXPECT_TRUE(reader->Finish().ok());
    return received;
  }

  objects::S3Server server_{::testing::TempDir() + "/checkpoint_carriage_test." +
                            std::to_string(::getpid())};
  TemporaryFolder folder_;
  OneAgent inputs_;
  std::shared_ptr<OpenDoor> door_ = std::make_shared<OpenDoor>();
  CheckpointRecord record_;
  std::unique_ptr<CheckpointFiles> files_;
  const std::shared_ptr<Meters> meters_ = std::make_shared<Meters>();
  std::unique_ptr<CheckpointBucket> bucket_;
  std::unique_ptr<AgentService> service_;
  std::unique_ptr<v1::AgentService::Stub> stub_;
};

TEST_F(CheckpointCarriageTest, FilesGoThereContinueAndComeBack) {
  const auto whole = static_cast<std::int64_t>(content().size());
  grpc::Status status;
  // It breaks off within the second part of the large file.
  EXPECT_EQ(put(2 + kPart + 1'000'000, status), 0);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(put(whole, status), 2 + kPart) << "what the store has is not sent again";
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(meters_->outside.object_store_carried.Value(), static_cast<double>(whole));
  EXPECT_TRUE(bucket_->verify(kId, list()).ok());
  EXPECT_EQ(put(whole, status), whole) << "all of it is there";
  EXPECT_TRUE(status.ok());

  record_.state = record_.parts[0].state = CheckpointState::kStored;
  service_->checkpoint_changed(record_);
  EXPECT_EQ(get(0), content());
  EXPECT_EQ(get(7'000'000), content().substr(7'000'000));
  for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_FALSE(file.path().filename().string().starts_with("carried.")) << "nothing stays here";
}

TEST_F(CheckpointCarriageTest, AStoreThatIsAwayEndsIt) {
  server_.kill();
  grpc::ClientContext context;
  TestAgent::prepare(context);
  const auto stream = stub_->PutCheckpoint(&context);
  v1::CheckpointUpload message = announced();
  v1::CheckpointReceived answer;
  EXPECT_TRUE(stream->Write(message));
  EXPECT_FALSE(stream->Read(&answer));
  const grpc::Status ended = stream->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::Error said;
  ASSERT_TRUE(said.ParseFromString(ended.error_details()));
  EXPECT_EQ(said.code(), "unavailable");
  EXPECT_THAT(ended.error_message(), ::testing::HasSubstr(said.message()));
  EXPECT_FALSE(said.message().empty()) << "by which the agent knows that the line is not broken";
}

}  // namespace
}  // namespace shoal::coordinator
