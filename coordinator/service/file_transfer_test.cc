#include "coordinator/service/file_transfer.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "coordinator/service/agent_service.h"
#include "coordinator/service/service_test_util.h"
#include "coordinator/store/store_test_util.h"
#include "proto/agent.grpc.pb.h"

namespace shoal::coordinator {
namespace {

const ObjectUser kAda{.name = "ada"};

using ::testing::HasSubstr;

constexpr AgentId kMine{1};
constexpr ReplicaId kOfDataset{5}, kOfFile{6}, kOfOthers{7}, kOfStore{8};

// Agent 1 has a replica of job 1, which reads a dataset, and one of job 2, which does not.
class Places final : public InputPort {
 public:
  bool post(Input) override { return true; }
  bool has_replica(AgentId, ReplicaId) override { return false; }
  std::int64_t replicas_of(AgentId) override { return 0; }
  bool works_for(AgentId, JobId) override { return false; }
  bool begins_from(AgentId, CheckpointId, JobId) override { return false; }
  bool continues_from(AgentId, CheckpointId) override { return false; }
  void count_session() override {}
  void count_refused_message() override {}
  std::optional<ReplicaPlace> place_of(ReplicaId replica) override {
    if (replica == kOfDataset) return ReplicaPlace{kMine, JobId(1), 0, 0, {}};
    if (replica == kOfFile) return ReplicaPlace{kMine, JobId(2), 0, 0, {}};
    if (replica == kOfStore) return ReplicaPlace{kMine, JobId(3), 0, 0, {}};
    if (replica == kOfOthers) return ReplicaPlace{AgentId(2), JobId(1), 0, 0, {}};
    return std::nullopt;
  }
};

class FileTransferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = std::move(Store::open(folder_.path())).value();
    files_ = std::move(FileStore::open({.folder = folder_.path() + "/files"}, *store_)).value();
    shard_ = put(text_);
    hashes_ = put(std::string(8 * data::kHashBytes, 'h'));
    manifest_ = put(data::to_text(
        {Tokenizer::kBytes,
         std::int64_t{64} << 10,
         {{"a.txt", static_cast<std::int64_t>(text_.size()), shard_, hashes_, "", 'x', 0}}}));
    write_job(JobId(1), {.dataset = "books@" + manifest_});
    code_ = put("a bundle");
    write_job(JobId(2), {.train = "/data/text.txt"}, "sha256:" + code_);
    transfer_ = std::make_unique<FileTransfer>(*files_, inputs_, store_->reader(),
                                               std::chrono::milliseconds(60'000), stores());
    checkpoints_ = std::move(CheckpointFiles::open(folder_.path() + "/checkpoints")).value();
    door_->machine = kMine;
    service_ = std::move(AgentService::start(
                             {.bind = "127.0.0.1:0", .door = door_, .files = transfer_.get()},
                             inputs_, *checkpoints_, {}))
                   .value();
    stub_ = v1::AgentService::NewStub(
        grpc::CreateChannel(service_->address(), grpc::InsecureChannelCredentials()));
  }

  DataStores stores() const {
    const std::string key = folder_.path() + "/key";
    std::ofstream(key) << "[default]\naws_access_key_id = us\naws_secret_access_key = hidden\n";
    std::filesystem::permissions(key, std::filesystem::perms(0600));
    auto store = objects::read_location("s3://data/web?endpoint=http://h:9000", "--data-store");
    return DataStores({std::move(*store)},
                      std::move(objects::CredentialSource::open(key, "key")).value());
  }

  std::string put(const std::string& text) {
    const std::string sha256 = sha256_of(text);
    EXPECT_TRUE(files_->begin(sha256, Bytes(static_cast<std::int64_t>(text.size())), kAda).ok());
    for (std::size_t at = 0; at < text.size(); at += FileStore::kPieceMax) {
      const auto piece = std::as_bytes(std::span(text)).subspan(at);
      EXPECT_TRUE(files_
                      ->write(sha256, Bytes(static_cast<std::int64_t>(at)),
                              piece.first(std::min(piece.size(), FileStore::kPieceMax)), kAda)
                      .ok());
    }
    return sha256;
  }

  void write_job(JobId id, DataSpec data, const std::string& code = {}) {
    JobRecord job{.id = id};
    job.spec.name = "job" + std::to_string(id.n);
    job.spec.data = std::move(data);
    job.spec.trainer.code = code;
    if (!code.empty())
      job.spec.trainer.kind = TrainerKind::kPython, job.spec.trainer.entry = "a.py";
    ASSERT_TRUE(write_and_wait(*store_, {job}).ok());
  }

  grpc::Status get(ReplicaId replica, const std::string& sha256, std::string& text,
                   std::int64_t from = 0, std::int64_t count = 0) {
    grpc::ClientContext context;
    TestAgent::prepare(context);
    v1::GetFileRequest request;
    request.set_replica(replica.n);
    request.set_sha256(sha256);
    request.set_from(from);
    request.set_count(count);
    text.clear();
    auto reader = stub_->GetFile(&context, request);
    for (v1::FileBytes message; reader->Read(&message);) text += message.data();
    return reader->Finish();
  }

  static std::string long_text() {
    std::string text(500'003, 'x');
    text.replace(500'000, 3, "end");
    return text;
  }

  const std::string text_ = long_text();
  std::string shard_, hashes_, manifest_, code_;
  TemporaryFolder folder_;
  Places inputs_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileStore> files_;
  std::unique_ptr<FileTransfer> transfer_;
  std::unique_ptr<CheckpointFiles> checkpoints_;
  std::shared_ptr<OpenDoor> door_ = std::make_shared<OpenDoor>();
  std::unique_ptr<AgentService> service_;
  std::unique_ptr<v1::AgentService::Stub> stub_;
};

TEST_F(FileTransferTest, AnAgentReadsWhatItsJobRefersTo) {
  std::string text;
  for (const auto& [sha256, size] :
       {std::pair(shard_, text_.size()), std::pair(hashes_, 8 * data::kHashBytes)}) {
    const grpc::Status got = get(kOfDataset, sha256, text);
    EXPECT_TRUE(got.ok()) << got.error_message();
    EXPECT_EQ(text.size(), size);
    EXPECT_EQ(sha256_of(text), sha256);
  }
  EXPECT_TRUE(get(kOfDataset, manifest_, text).ok());
  EXPECT_TRUE(data::parse_manifest(text).ok());
  EXPECT_TRUE(get(kOfFile, code_, text).ok());
  EXPECT_EQ(text, "a bundle");
}

TEST_F(FileTransferTest, AShardInAnObjectStoreIsNamedByASignedUrl) {
  const std::string elsewhere = sha256_of("elsewhere"), private_one = sha256_of("private");
  const std::string ours = "s3://data/web/a.bin?endpoint=http://h:9000";
  const std::string other = "s3://data/own/a.bin?endpoint=http://h:9000";
  const std::string manifest =
      put(data::to_text({Tokenizer::kBytes,
                         std::int64_t{64} << 10,
                         {{"a.bin", 500'000, elsewhere, hashes_, ours, 'x', 0},
                          {"b.bin", 500'000, private_one, hashes_, other, 'x', 0}}}));
  write_job(JobId(3), {.dataset = "web@" + manifest});
  v1::FileBytes message;
  const auto ask = [&](ReplicaId replica, const std::string& sha256) {
    grpc::ClientContext context;
    TestAgent::prepare(context);
    v1::GetFileRequest request;
    request.set_replica(replica.n);
    request.set_sha256(sha256);
    auto reader = stub_->GetFile(&context, request);
    message.Clear();
    reader->Read(&message);
    for (v1::FileBytes more; reader->Read(&more);) ADD_FAILURE() << "one message is all";
    return reader->Finish();
  };
  ASSERT_TRUE(ask(kOfStore, elsewhere).ok());
  EXPECT_THAT(message.url(), HasSubstr("http://h:9000/data/web/a.bin?"));
  EXPECT_THAT(message.url(), HasSubstr("X-Amz-Signature="));
  EXPECT_EQ(message.valid_s(), 3'600);
  EXPECT_EQ(message.data(), "");
  EXPECT_FALSE(ask(kOfStore, private_one).ok()) << "beneath no --data-store";
  EXPECT_EQ(ask(kOfDataset, elsewhere).error_code(), grpc::StatusCode::NOT_FOUND)
      << "its job does not refer to it";
}

TEST_F(FileTransferTest, ByRange) {
  std::string text;
  ASSERT_TRUE(get(kOfDataset, shard_, text, 499'999, 3).ok());
  EXPECT_EQ(text, "xen");
  ASSERT_TRUE(get(kOfDataset, shard_, text, 500'000).ok());
  EXPECT_EQ(text, "end");
  ASSERT_TRUE(get(kOfDataset, shard_, text, 500'002, 1'000).ok());
  EXPECT_EQ(text, "d");
  const grpc::Status beyond = get(kOfDataset, shard_, text, 500'004);
  EXPECT_EQ(beyond.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(beyond.error_message(), HasSubstr("the file has 500003 bytes"));
}

TEST_F(FileTransferTest, NothingElse) {
  std::string text;
  const std::string code = put("of somebody else");
  EXPECT_EQ(get(kOfDataset, code, text).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(get(kOfFile, shard_, text).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(get(kOfOthers, shard_, text).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(get(ReplicaId(99), shard_, text).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace shoal::coordinator
