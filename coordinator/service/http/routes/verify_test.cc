// POST /checkpoints/{checkpoint}/verify from outside: files as recorded, damaged ones, and
// questions that have no answer.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/sha256.h"
#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator {
namespace {

class VerifyTest : public testing::ServerFixture {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoal_verify_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    cluster_.checkpoint_root = root_.string();
    start();
    {
      const MutexLock lock(cluster_.tables.mutex);
      CheckpointRecord& checkpoint = cluster_.tables.checkpoints.at(5);
      checkpoint.parts.resize(1);
      checkpoint.parts[0].files = {{"model.bin", Bytes(10), sha256_of("0123456789")},
                                   {"state/outer.bin", Bytes(4), sha256_of("abcd")}};
    }
    std::filesystem::create_directories(root_ / "ckpt_5/state");
    write("model.bin", "0123456789");
    write("state/outer.bin", "abcd");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const char* path, const char* content) {
    std::ofstream(root_ / "ckpt_5" / path) << content;
  }
  testing::Received verify(const std::string& rest) {
    return testing::ask(address_, "POST", "/api/v1/checkpoints/" + rest, "", "");
  }

  std::filesystem::path root_;
};

TEST_F(VerifyTest, WhatIsAsRecordedIsSaidSo) {
  const auto answer = verify("ckpt_5/verify");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto json = answer.json();
  EXPECT_EQ(json["checkpoint"], "ckpt_5");
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][1]["path"], "state/outer.bin");
  EXPECT_TRUE(json["files"][1]["problem"].is_null());
}

TEST_F(VerifyTest, ADamagedFileIsNamedWithItsReason) {
  write("model.bin", "0123456780");
  write("state/outer.bin", "abc");
  const auto json = verify("ckpt_5/verify").json();
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["files"][0]["problem"], "has the SHA-256 " + sha256_of("0123456780"));
  EXPECT_THAT(json["files"][1]["problem"].get<std::string>(), ::testing::HasSubstr("3 bytes"));
}

TEST_F(VerifyTest, LastGoodFileVerifiesTheCheckpoint) {
  const auto verified_at = [this] {
    const MutexLock lock(cluster_.tables.mutex);
    return cluster_.tables.checkpoints.at(5).verified_at.ns;
  };
  EXPECT_EQ(verify("ckpt_5/verify?file=model.bin").json()["ok"], true);
  EXPECT_EQ(verify("ckpt_5/verify?file=model.bin").json()["ok"], true);
  EXPECT_EQ(verified_at(), 0);
  EXPECT_EQ(verify("ckpt_5/verify?file=state/outer.bin").json()["ok"], true);
  EXPECT_GT(verified_at(), 0);
}

TEST_F(VerifyTest, DamagedFileEndsWhatWasVerifiedBefore) {
  EXPECT_EQ(verify("ckpt_5/verify?file=model.bin").json()["ok"], true);
  write("model.bin", "0123456780");
  EXPECT_EQ(verify("ckpt_5/verify?file=model.bin").json()["ok"], false);
  EXPECT_EQ(verify("ckpt_5/verify?file=state/outer.bin").json()["ok"], true);
  const MutexLock lock(cluster_.tables.mutex);
  EXPECT_EQ(cluster_.tables.checkpoints.at(5).verified_at.ns, 0);
}

TEST_F(VerifyTest, RefusesWeightsOfAnotherAnchor) {
  const std::vector<float> values{1, 2, 3, 4};
  const std::string header = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  std::string file{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  file += header;
  file.append(reinterpret_cast<const char*>(values.data()), 16);
  std::ofstream(root_ / "ckpt_5" / "model.bin") << file;
  const auto set = [&](const Digest& anchor) {
    const MutexLock lock(cluster_.tables.mutex);
    CheckpointPart& part = cluster_.tables.checkpoints.at(5).parts[0];
    part.anchor = anchor;
    part.files[0] = {"model.bin", Bytes(std::ssize(file)), sha256_of(file), "weights"};
  };
  set(digest_of(values));
  EXPECT_EQ(verify("ckpt_5/verify?file=model.bin").json()["ok"], true);
  set({1, 2});
  const auto json = verify("ckpt_5/verify?file=model.bin").json();
  EXPECT_EQ(json["ok"], false);
  EXPECT_THAT(json["files"][0]["problem"].get<std::string>(),
              ::testing::HasSubstr("holds weights of the anchor " + to_hex(digest_of(values))));
}

TEST_F(VerifyTest, AGoodFileAfterADamagedOneMakesNothingGood) {
  write("model.bin", "0123456780");
  const auto json = verify("ckpt_5/verify").json();
  EXPECT_EQ(json["files"][0]["ok"], false);
  EXPECT_EQ(json["files"][1]["ok"], true);
  EXPECT_EQ(json["ok"], false);
}

TEST_F(VerifyTest, OneFileCanBeAskedFor) {
  write("state/outer.bin", "abce");
  const auto json = verify("ckpt_5/verify?file=model.bin").json();
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["files"].size(), 1u);
  expect_problem(verify("ckpt_5/verify?file=other"), 404, "not-found");
}

TEST_F(VerifyTest, OnlyStoredCheckpointsHaveFilesToRead) {
  expect_problem(verify("ckpt_99/verify"), 404, "not-found");
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.checkpoints.at(5).state = CheckpointState::kDeleted;
  }
  expect_problem(verify("ckpt_5/verify"), 409, "conflict");
}

}  // namespace
}  // namespace shoal::coordinator
