#include "agent/host/checkpoint_files.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "agent/host/test_folder.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

const std::atomic<bool> kWanted{false};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

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
  // Everything back to back, as it travels.
  std::string stream() const {
    std::string bytes;
    const Status read = read_files(source_, files_, [&](std::string_view piece) {
      bytes += piece;
      return true;
    });
    EXPECT_TRUE(read.ok());
    return bytes;
  }

  TestFolder folder_;
  std::string source_ = folder_.path() + "/source", target_ = folder_.path() + "/target";
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

TEST_F(CheckpointFiles, TravelInPiecesOfAnySize) {
  const std::string bytes = stream();
  for (const std::size_t piece : {std::size_t{7}, std::size_t{1 << 20}, bytes.size()}) {
    FolderReceiver receiver(target_, files_);
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      ASSERT_TRUE(receiver.write(std::string_view(bytes).substr(i, piece)).ok());
      if (piece == 7 && i > 70'000) break;
    }
    const Status finished = receiver.finish();
    EXPECT_EQ(finished.ok(), piece != 7) << "broken off after 70 kB";
  }
  EXPECT_EQ(*hash_folder(target_, kWanted), files_);
  EXPECT_FALSE(fs::exists(target_ + ".part"));
}

TEST_F(CheckpointFiles, AWrongByteIsFound) {
  std::string bytes = stream();
  bytes.back() ^= 1;
  FolderReceiver receiver(target_, files_);
  const Status written = receiver.write(bytes);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, Code::kDataLoss);
}

TEST_F(CheckpointFiles, TooManyBytesAreRefused) {
  FolderReceiver receiver(target_, files_);
  ASSERT_TRUE(receiver.write(stream()).ok());
  EXPECT_FALSE(receiver.write("x").ok());
}

TEST_F(CheckpointFiles, NothingIsLeftWithoutFinish) {
  {
    FolderReceiver receiver(target_, files_);
    ASSERT_TRUE(receiver.write(stream()).ok());
  }
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_FALSE(fs::exists(target_ + ".part"));
}

TEST_F(CheckpointFiles, HashingStopsWhenTold) {
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(hash_folder(source_, cancelled).error().code, Code::kCancelled);
  EXPECT_FALSE(hash_folder(folder_.path() + "/nowhere", kWanted).ok());
}

TEST_F(CheckpointFiles, AFileThatShrankIsNoticed) {
  std::ofstream(source_ + "/resume/outer.bin") << "o";
  EXPECT_EQ(read_files(source_, files_, [](std::string_view) { return true; }).error().code,
            Code::kDataLoss);
}

TEST(DurableFile, ReplacesTheOldOne) {
  TestFolder folder;
  ASSERT_TRUE(write_file_durably(folder.path() + "/a", "one").ok());
  ASSERT_TRUE(write_file_durably(folder.path() + "/a", "two").ok());
  EXPECT_EQ(text_of(folder.path() + "/a"), "two");
  EXPECT_FALSE(write_file_durably(folder.path() + "/none/a", "x").ok());
}

}  // namespace
}  // namespace shoal::agent
