#include "replica/checkpoint/object_bundle.h"

#include <cstring>

#include <gtest/gtest.h>

#include "replica/checkpoint/part_writer.h"
#include "threads/file_content.h"

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

class ObjectBundleTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(from_.path().empty());
    const auto json = write_object({from_.path(), 0, 1, "object/schedule", R"({"step":3})", {}});
    const std::vector<float> values{1, 2, 3};
    const auto tensors =
        write_object({from_.path(), 0, 1, "inner/optimizer", "{}", {{"m", {3}, values}}});
    ASSERT_TRUE(json.ok() && tensors.ok());
    files_ = {*json, *tensors};
    bundle_ = bundle_objects(from_.path(), files_).value();
  }
  // With one byte less or another byte than it had.
  Code refusal(std::vector<float> bundle) {
    const TemporaryFolder elsewhere;
    return unbundle_objects(bundle, elsewhere.path()).error().code;
  }
  std::vector<float> with_text(const std::string& old, const std::string& now) {
    std::string bytes(bundle_.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), bundle_.data(), bytes.size());
    bytes.replace(bytes.find(old), old.size(), now);
    std::vector<float> changed(bundle_.size());
    std::memcpy(changed.data(), bytes.data(), bytes.size());
    return changed;
  }

  TemporaryFolder from_, to_;
  std::vector<FileEntry> files_;
  std::vector<float> bundle_;
};

TEST_F(ObjectBundleTest, FilesComeBackWithTheirRoles) {
  ASSERT_TRUE(unbundle_objects(bundle_, to_.path()).ok());
  const auto listed = list_objects(to_.path(), 0);
  ASSERT_TRUE(listed.ok()) << to_string(listed.error());
  ASSERT_EQ(listed->size(), 2u);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    EXPECT_EQ(listed->at(i).path, files_[i].path);
    EXPECT_EQ(listed->at(i).role, files_[i].role);
    EXPECT_EQ(listed->at(i).size, files_[i].size);
    EXPECT_EQ(file_content(to_.path() / files_[i].path).value(),
              file_content(from_.path() / files_[i].path).value());
  }
}

TEST_F(ObjectBundleTest, AnEmptyBundleHasNoFiles) {
  const auto empty = bundle_objects(from_.path(), {});
  ASSERT_TRUE(empty.ok());
  ASSERT_TRUE(unbundle_objects(*empty, to_.path()).ok());
  EXPECT_TRUE(list_objects(to_.path(), 0)->empty());
}

TEST_F(ObjectBundleTest, WhatIsNoBundleIsRefused) {
  EXPECT_EQ(refusal({}), Code::kDataLoss);
  EXPECT_EQ(refusal(std::vector<float>(100, 1e30f)), Code::kDataLoss);
  EXPECT_EQ(refusal({bundle_.begin(), bundle_.end() - 8}), Code::kDataLoss);
  EXPECT_EQ(refusal(with_text("optimizer.safetensors", "../imizer.safetensors")), Code::kDataLoss);
  EXPECT_EQ(refusal(with_text("[{", "({")), Code::kDataLoss);
}

TEST_F(ObjectBundleTest, AFolderWithoutAListIsACheckpointOrNothing) {
  EXPECT_EQ(list_objects(from_.path(), 0).error().code, Code::kNotFound);
}

TEST(TemporaryFolder, IsRemovedWithItsFiles) {
  fs::path path;
  {
    const TemporaryFolder folder;
    path = folder.path();
    ASSERT_TRUE(write_object({path, 0, 1, "object/a", "{}", {}}).ok());
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace shoal::replica
