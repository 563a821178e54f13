#include "agent/host/checkpoint_files.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

const std::atomic<bool> kWanted{false};

class CheckpointFiles : public testing::Test {
 protected:
  CheckpointFiles() {
    fs::create_directories(source_ + "/resume");
    std::ofstream(source_ + "/model.safetensors") << std::string(3'000'000, 'm');
    std::ofstream(source_ + "/resume/a_empty") << "";
    std::ofstream(source_ + "/resume/outer.bin") << "outer";
    std::ofstream(source_ + "/zz_empty") << "";
    files_ = *hash_folder(source_, kWanted);
  }
  TestFolder folder_;
  const std::string source_ = folder_.path() + "/source";
  std::vector<FileEntry> files_;
};

TEST_F(CheckpointFiles, AreHashedInOrder) {
  ASSERT_EQ(files_.size(), 4u);
  EXPECT_EQ(files_[0].path, "model.safetensors");
  EXPECT_EQ(files_[0].size, Bytes(3'000'000));
  EXPECT_EQ(files_[1].path, "resume/a_empty");
  // sha256 of nothing
  EXPECT_EQ(files_[1].sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(files_[2].path, "resume/outer.bin");
}

TEST_F(CheckpointFiles, ALinkIsRefused) {
  std::filesystem::create_symlink("/etc/hostname", source_ + "/resume/link.bin");
  const auto hashed = hash_folder(source_, kWanted);
  ASSERT_FALSE(hashed.ok());
  EXPECT_EQ(hashed.error().code, Code::kDataLoss);
  EXPECT_NE(hashed.error().message.find("link.bin"), std::string::npos);
}

TEST_F(CheckpointFiles, HashingStopsWhenTold) {
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(hash_folder(source_, cancelled).error().code, Code::kCancelled);
  EXPECT_FALSE(hash_folder(folder_.path() + "/nowhere", kWanted).ok());
}

}  // namespace
}  // namespace shoal::agent
