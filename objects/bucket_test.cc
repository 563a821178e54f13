// Against a real S3 server, and looked at with a client that shares no code with ours.
#include "objects/bucket.h"

#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>

#include "objects/s3_server_test_util.h"

namespace shoal::objects {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PartPlan, CoversTheWholeInAtMostTenThousand) {
  const PartPlan plan = plan_parts(Bytes(25), Bytes(10));
  EXPECT_EQ(plan.count(), 3);
  EXPECT_EQ(plan.offset(3), Bytes(20));
  EXPECT_EQ(plan.length(3), Bytes(5));
  EXPECT_EQ(plan_parts(Bytes(), Bytes(10)).count(), 1);
  const PartPlan large = plan_parts(mebibytes(1'000'000), mebibytes(16));
  EXPECT_LE(large.count(), kPartsMax);
  EXPECT_EQ(large.offset(large.count()) + large.length(large.count()), large.size);
}

class BucketTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new S3Server(::testing::TempDir() + "/bucket_test." + std::to_string(::getpid()));
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_->is_installed()) GTEST_SKIP() << "python3-swift is not installed (./dev deps)";
    bucket_ = server_->bucket("some/where");
  }
  std::string text(const std::string& key) { return bucket_->get_text(key).value(); }

  static inline S3Server* server_ = nullptr;
  std::unique_ptr<Bucket> bucket_;
};

TEST_F(BucketTest, WhatIsPutIsThereForOthersToo) {
  ASSERT_TRUE(bucket_->check().ok());
  ASSERT_TRUE(bucket_->put("a b/c+d", body_of("hello"), {{"x-amz-meta-sha256", "abc"}}).ok());
  const auto info = bucket_->head("a b/c+d");
  ASSERT_TRUE(info.ok()) << to_string(info.error());
  EXPECT_EQ(info->size, Bytes(5));
  EXPECT_EQ(info->metadata.at("x-amz-meta-sha256"), "abc");
  EXPECT_EQ(text("a b/c+d"), "hello");
  std::string middle;
  ASSERT_TRUE(bucket_
                  ->get("a b/c+d", {.from = Bytes(1), .size = Bytes(3), .whole = Bytes(5)},
                        [&](std::span<const std::byte> bytes) {
                          middle.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                          return true;
                        })
                  .ok());
  EXPECT_EQ(middle, "ell");
  EXPECT_THAT(server_->s3cmd("ls -r s3://shoal/"), HasSubstr("s3://shoal/some/where/a b/c+d"));
  ASSERT_TRUE(bucket_->put("empty", body_of("")).ok());
  EXPECT_EQ(text("empty"), "");
  ASSERT_TRUE(bucket_->remove("a b/c+d").ok());
  ASSERT_TRUE(bucket_->remove("a b/c+d").ok());
  EXPECT_EQ(bucket_->head("a b/c+d").error().code, Code::kNotFound);
}

TEST_F(BucketTest, ListsGoOverPagesAndAllCanBeRemoved) {
  for (int i = 0; i < 12; ++i)
    ASSERT_TRUE(bucket_->put("many/" + std::to_string(100 + i), body_of("x")).ok());
  std::vector<std::string> keys;
  ASSERT_TRUE(bucket_
                  ->list("many/",
                         [&](const ObjectInfo& object) {
                           keys.push_back(object.key);
                           return keys.size() < 11;
                         })
                  .ok());
  EXPECT_EQ(keys.size(), 11u);
  EXPECT_EQ(keys.front(), "many/100");
  ASSERT_TRUE(bucket_->begin_upload("many/unfinished").ok());
  ASSERT_TRUE(bucket_->remove_all("many/").ok());
  keys.clear();
  ASSERT_TRUE(bucket_
                  ->list("many/",
                         [&](const ObjectInfo& object) { return keys.push_back(object.key), true; })
                  .ok());
  EXPECT_TRUE(keys.empty());
  EXPECT_TRUE(bucket_->uploads("many/")->empty());
}

TEST_F(BucketTest, AnUploadInPartsContinuesAndIsVerified) {
  const std::string path = ::testing::TempDir() + "/large." + std::to_string(::getpid());
  std::string content(12'000'000, 'a');
  for (std::size_t i = 0; i < content.size(); i += 7) content[i] = static_cast<char>(i * 31 >> 3);
  std::ofstream(path, std::ios::binary) << content;
  const int file = ::open(path.c_str(), O_RDONLY);
  const PartPlan plan = plan_parts(Bytes(12'000'000), mebibytes(5));
  ASSERT_EQ(plan.count(), 3);
  const auto upload = bucket_->begin_upload("large");
  ASSERT_TRUE(upload.ok()) << to_string(upload.error());
  const auto first = bucket_->put_part("large", *upload, 1, body_of_file(file, 0, plan.part));
  ASSERT_TRUE(first.ok()) << to_string(first.error());
  EXPECT_THAT(*bucket_->parts("large", *upload), ElementsAre(*first));
  EXPECT_EQ(bucket_->head("large").error().code, Code::kNotFound);
  ASSERT_TRUE(bucket_->put_file("large", file, Bytes(12'000'000)).ok());
  EXPECT_TRUE(bucket_->uploads("large")->empty()) << "the upload that had begun was completed";
  const std::string copy = path + ".copy";
  server_->s3cmd("get --force s3://shoal/some/where/large " + copy);
  std::ifstream got(copy, std::ios::binary);
  EXPECT_EQ((std::string(std::istreambuf_iterator<char>(got), {})), content);
  ::close(file);
}

TEST_F(BucketTest, WhoHasAUrlCanDoThatOneThingForAWhile) {
  const Client stranger({.reach = {.private_allowed = true}});
  const auto put = bucket_->url_to_put("by-url", {{"x-amz-meta-sha256", "abc"}}, seconds(60));
  ASSERT_TRUE(put.ok());
  const auto send = [&](const std::string& url, const Headers& headers) {
    return stranger.send(
        Request{.method = "PUT", .url = url, .headers = headers, .body = body_of("x")});
  };
  EXPECT_FALSE(send(*put, {{"x-amz-meta-sha256", "other"}}).ok()) << "the header is signed";
  ASSERT_TRUE(send(*put, {{"x-amz-meta-sha256", "abc"}}).ok());
  EXPECT_EQ(text("by-url"), "x");
  std::string other = *put;
  other.replace(other.find("by-url"), 6, "by-foo");
  EXPECT_EQ(send(other, {{"x-amz-meta-sha256", "abc"}}).error().code, Code::kPermissionDenied);
  const auto get = bucket_->url_to_get("by-url", seconds(60));
  EXPECT_EQ(stranger.send(Request{.url = *get})->body, "x");
}

TEST_F(BucketTest, ABucketThatIsGoneOrDeniesSaysSo) {
  auto wrong = read_location("s3://nobody?endpoint=" + server_->endpoint(), "store");
  const auto key = CredentialSource::open(server_->credentials(), "key");
  const ClientOptions options{.reach = {.private_allowed = true}};
  const std::shared_ptr<CredentialSource> shared =
      std::move(CredentialSource::open(server_->credentials(), "key").value());
  const Status gone = Bucket(*wrong, options, shared).check();
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, Code::kNotFound);
  EXPECT_THAT(gone.error().message, HasSubstr("NoSuchBucket"));
  ::setenv("AWS_ACCESS_KEY_ID", "test:tester", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
  const std::shared_ptr<CredentialSource> other =
      std::move(CredentialSource::open("", "key").value());
  const Status denied =
      Bucket(*read_location(server_->location(""), "store"), options, other).check();
  ASSERT_FALSE(denied.ok());
  EXPECT_EQ(denied.error().code, Code::kPermissionDenied);
  EXPECT_THAT(denied.error().message, HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(denied.error().message, ::testing::Not(HasSubstr("X-Amz")));
}

TEST_F(BucketTest, AServerThatComesBackGoesOn) {
  int retries = 0;
  const auto bucket = server_->bucket("back",
                                      {.connect = seconds(2),
                                       .silence = seconds(5),
                                       .tries = 60,
                                       .pause_first = milliseconds(50),
                                       .pause_max = milliseconds(100)},
                                      [&] { ++retries; });
  ASSERT_TRUE(bucket->put("k", body_of("kept")).ok());
  server_->kill();
  const auto impatient = server_->bucket("back", {.tries = 1});
  EXPECT_EQ(impatient->get_text("k").error().code, Code::kUnavailable);
  std::thread later([&] { server_->start(); });
  const auto got = bucket->get_text("k");
  later.join();
  ASSERT_TRUE(got.ok()) << to_string(got.error());
  EXPECT_EQ(*got, "kept");
  EXPECT_GT(retries, 0);
}

}  // namespace
}  // namespace shoal::objects
