// Against a real S3 server.
#include "coordinator/service/shelves/checkpoint_bucket.h"

#include <fstream>

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "coordinator/store/manifest.h"
#include "coordinator/store/store_test_util.h"
#include "objects/s3_server_test_util.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr CheckpointId kId{7};

class CheckpointBucketTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new objects::S3Server(::testing::TempDir() + "/checkpoint_bucket_test." +
                                    std::to_string(::getpid()));
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_->is_installed()) GTEST_SKIP() << "python3-swift is not installed (./dev deps)";
    prefix_ = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    open();
  }
  void open() {
    bucket_ = std::make_unique<CheckpointBucket>(
        server_->bucket(prefix_, {.tries = 2, .pause_first = milliseconds(1)}), folder_.path());
  }
  static FileEntry entry(const std::string& path, const std::string& content) {
    return {path, Bytes(static_cast<std::int64_t>(content.size())), sha256_of(content)};
  }
  // A small file, one of three parts, and an empty one.
  static std::string content(std::size_t file) {
    static const std::string kLarge(11'000'000, 'w');
    return file == 0 ? "{}" : file == 1 ? kLarge : "";
  }
  static std::vector<FileEntry> files() {
    return {entry("config.json", content(0)), entry("model.bin", content(1)),
            entry("empty", content(2))};
  }
  // Carries a request out, as an agent does.
  static Status send(const PresignedRequest& request) {
    const std::string bytes = content(request.file)
                                  .substr(static_cast<std::size_t>(request.offset.count()),
                                          static_cast<std::size_t>(request.size.count()));
    const objects::Client agent({.reach = {.private_allowed = true}});
    const auto sent = agent.send(objects::Request{.method = "PUT",
                                                  .url = request.url,
                                                  .headers = request.headers,
                                                  .body = objects::body_of(bytes)});
    return sent.ok() ? Status() : Status(sent.error());
  }
  static int send_all(CheckpointBucket::Upload& upload, int most = 100) {
    int count = 0;
    for (; count < most; ++count) {
      const auto next = upload.next(1);
      EXPECT_TRUE(next.ok()) << to_string(next.error());
      if (!next.ok() || next->empty()) break;
      EXPECT_TRUE(send(next->front()).ok());
      const Status taken = upload.sent(next->front().file, next->front().part);
      EXPECT_TRUE(taken.ok()) << to_string(taken.error());
    }
    return count;
  }
  static CheckpointRecord record() {
    CheckpointRecord checkpoint{
        .id = kId, .key = {JobId(1), 0, 3}, .state = CheckpointState::kStored};
    checkpoint.parts.resize(1);
    checkpoint.parts[0].state = CheckpointState::kStored;
    checkpoint.parts[0].files = files();
    return checkpoint;
  }
  void wait_until_idle() {
    for (int i = 0; i < 1000 && bucket_->waiting() > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(bucket_->waiting(), 0);
  }

  static inline objects::S3Server* server_ = nullptr;
  std::string prefix_;
  TemporaryFolder folder_;
  std::unique_ptr<CheckpointBucket> bucket_;
};

TEST_F(CheckpointBucketTest, GoesThereInPartsAndBack) {
  auto upload = bucket_->begin(kId, 0, files());
  ASSERT_TRUE(upload.ok()) << to_string(upload.error());
  EXPECT_EQ(bucket_->begin(kId, 0, files()).error().code, Code::kConflict);
  EXPECT_EQ(send_all(**upload), 5);
  EXPECT_TRUE((*upload)->complete());
  EXPECT_EQ((*upload)->stored(), total_size(files()));
  EXPECT_THAT(*bucket_->list(), UnorderedElementsAre(Pair(kId, false)));
  bucket_->describe(record());
  wait_until_idle();
  EXPECT_THAT(*bucket_->list(), UnorderedElementsAre(Pair(kId, true)));
  EXPECT_EQ(*bucket_->manifest(kId), record());
  EXPECT_TRUE(bucket_->verify(kId, files()).ok());
  const auto gets = bucket_->requests_to_get(kId, files(), Bytes(1'000'002));
  ASSERT_EQ(gets->size(), 1u);
  EXPECT_EQ(gets->front().offset, Bytes(1'000'000));
  EXPECT_EQ(gets->front().size, Bytes(10'000'000));
  EXPECT_THAT(server_->s3cmd("ls s3://shoal/" + prefix_ + "/ckpt_7/"),
              ::testing::AllOf(HasSubstr("model.bin"), HasSubstr("manifest.json")));
  std::string line;
  std::getline(std::ifstream(folder_.path() + "/ckpt_7.store") >> std::ws, line);
  EXPECT_EQ(line, "s3://shoal/" + prefix_ + "/ckpt_7");
}

TEST_F(CheckpointBucketTest, ABrokenUploadContinuesInAnotherProcess) {
  {
    auto upload = bucket_->begin(kId, 0, files());
    ASSERT_TRUE(upload.ok());
    EXPECT_EQ(send_all(**upload, 3), 3);  // the small file, and two of three parts
  }
  open();
  auto upload = bucket_->begin(kId, 0, files());
  ASSERT_TRUE(upload.ok()) << to_string(upload.error());
  EXPECT_EQ((*upload)->stored(), Bytes(2 + 2 * (5 << 20)));
  EXPECT_EQ(send_all(**upload), 2);
  EXPECT_TRUE((*upload)->complete());
  EXPECT_TRUE(bucket_->verify(kId, files()).ok());
}

TEST_F(CheckpointBucketTest, WhatAnAgentSaysIsNotBelieved) {
  auto upload = bucket_->begin(kId, 0, files());
  ASSERT_TRUE(upload.ok());
  EXPECT_EQ((*upload)->sent(1, 1).error().code, Code::kInvalidArgument) << "never handed out";
  const auto all = (*upload)->next(10);
  ASSERT_EQ(all->size(), 5u);
  const Status lied = (*upload)->sent(0, 0);
  ASSERT_FALSE(lied.ok());
  EXPECT_EQ(lied.error().code, Code::kUnavailable);
  ASSERT_TRUE(send((*all)[1]).ok());
  EXPECT_TRUE((*upload)->sent(1, 1).ok());
  EXPECT_TRUE((*upload)->sent(1, 2).ok());
  const Status lacking = (*upload)->sent(1, 3);
  ASSERT_FALSE(lacking.ok());
  EXPECT_THAT(lacking.error().message, HasSubstr("lacks parts"));
  EXPECT_FALSE((*upload)->complete());
}

TEST_F(CheckpointBucketTest, OtherFilesOfTheSameNameAreSentAnew) {
  auto upload = bucket_->begin(kId, 0, {entry("config.json", "{}")});
  EXPECT_EQ(send_all(**upload), 1);
  upload.value().reset();
  auto again = bucket_->begin(kId, 0, {entry("config.json", "[]")});
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE((*again)->complete());
  again.value().reset();
  EXPECT_TRUE((*bucket_->begin(kId, 0, {entry("config.json", "{}")}))->complete());
}

TEST_F(CheckpointBucketTest, WhatIsRemovedIsGoneAsSoonAsTheStoreTakesIt) {
  auto upload = bucket_->begin(kId, 0, files());
  EXPECT_EQ(send_all(**upload, 3), 3);  // an upload in parts stays unfinished
  upload.value().reset();
  bucket_->describe(record());
  wait_until_idle();
  server_->kill();
  bucket_->remove(kId);
  EXPECT_EQ(bucket_->waiting(), 1);
  server_->start();
  wait_until_idle();
  EXPECT_TRUE(bucket_->list()->empty());
}

// Also when the store comes back with both to do.
TEST_F(CheckpointBucketTest, NothingIsDeletedWhileAManifestWaits) {
  CheckpointRecord described = record();
  for (const std::uint64_t id : {1, 2, 3}) {
    described.id = CheckpointId(id);
    bucket_->describe(described);
  }
  wait_until_idle();
  server_->kill();
  for (const std::uint64_t id : {1, 2, 3}) bucket_->remove(CheckpointId(id));
  described.id = CheckpointId(4);
  bucket_->describe(described);
  server_->start();
  while (bucket_->waiting() > 0) {
    const auto listed = bucket_->list();
    ASSERT_TRUE(listed.ok()) << to_string(listed.error());
    EXPECT_TRUE(listed->size() == 3 || listed->contains(CheckpointId(4)));
  }
  EXPECT_THAT(*bucket_->list(), UnorderedElementsAre(Pair(CheckpointId(4), true)));
}

TEST_F(CheckpointBucketTest, APrefixIsOfOneCluster) {
  ASSERT_TRUE(*bucket_->claim());
  ASSERT_TRUE(*bucket_->claim()) << "by itself, again";
  const TemporaryFolder other_folder;
  CheckpointBucket other(server_->bucket(prefix_), other_folder.path());
  const auto refused = other.claim();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_EQ(refused.error().field, "--checkpoint-store");
  server_->kill();
  EXPECT_EQ(*bucket_->claim(), false) << "it was ours before";
  EXPECT_EQ(other.claim().error().code, Code::kUnavailable);
  server_->start();
}

}  // namespace
}  // namespace shoal::coordinator
