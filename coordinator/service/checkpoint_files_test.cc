#include "coordinator/service/checkpoint_files.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

class CheckpointFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    auto opened = CheckpointFiles::open(folder_.path(), [this](const std::string& folder) {
      return room_.n < 0 ? free_room(folder) : Result<Bytes>(room_);
    });
    ASSERT_TRUE(opened.ok());
    files_ = std::move(opened).value();
  }
  static FileEntry entry(const std::string& path, const std::string& content) {
    return {path, Bytes(static_cast<std::int64_t>(content.size())), sha256_of(content)};
  }
  std::string read(CheckpointId id, const std::vector<FileEntry>& list, Bytes from = {}) {
    std::string all;
    const Status status = files_->read(id, list, from, [&](std::span<const std::byte> chunk) {
      all.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      return true;
    });
    return status.ok() ? all : "error: " + to_string(status.error());
  }
  bool nothing_left() { return std::filesystem::is_empty(folder_.path()); }

  TemporaryFolder folder_;
  std::unique_ptr<CheckpointFiles> files_;
  Bytes room_{-1};  // what the disk is said to have; -1: as it is
  const CheckpointId id_{7};
};

TEST_F(CheckpointFilesTest, AnUploadInOddPiecesComesBackWhole) {
  const std::vector<FileEntry> list{entry("config.json", "{}"), entry("empty", ""),
                                    entry("state/outer.bin", "0123456789")};
  auto upload = files_->begin(id_, 0, 1, list);
  ASSERT_TRUE(upload.ok()) << to_string(upload.error());
  for (const char* piece : {"{", "}012", "3456789"})
    ASSERT_TRUE((*upload)->write(bytes(piece)).ok());
  EXPECT_FALSE(std::filesystem::exists(files_->folder(id_)));
  const auto stored = (*upload)->finish();
  ASSERT_TRUE(stored.ok()) << to_string(stored.error());
  EXPECT_EQ(stored->n, 12);
  upload->reset();
  EXPECT_EQ(read(id_, list), "{}0123456789");
  EXPECT_EQ(read(id_, list, Bytes(5)), "3456789");
  ASSERT_TRUE(files_->remove(id_).ok());
  EXPECT_TRUE(nothing_left());
  EXPECT_TRUE(files_->remove(id_).ok());
}

TEST_F(CheckpointFilesTest, AnUploadThatBrokeOffGoesOnEvenAfterARestart) {
  const std::vector<FileEntry> list{entry("config.json", "{}"), entry("model", "0123456789")};
  {
    auto upload = files_->begin(id_, 0, 1, list);
    ASSERT_TRUE((*upload)->write(bytes("{}012")).ok());
    ASSERT_TRUE((*upload)->sync().ok());
  }
  open();
  ASSERT_TRUE(files_->prune({id_}).ok());
  auto upload = files_->begin(id_, 0, 1, list);
  ASSERT_TRUE(upload.ok()) << to_string(upload.error());
  EXPECT_EQ((*upload)->received().count(), 5);
  ASSERT_TRUE((*upload)->write(bytes("3456789")).ok());
  EXPECT_EQ((*upload)->finish()->n, 12);
  EXPECT_EQ(read(id_, list), "{}0123456789");
}

// The coordinator ended between the files and the record.
TEST_F(CheckpointFilesTest, APartThatIsThereIsNotReceivedAgain) {
  const std::vector<FileEntry> list{entry("a", "one")};
  auto upload = files_->begin(id_, 0, 2, list);
  ASSERT_TRUE((*upload)->write(bytes("one")).ok());
  ASSERT_TRUE((*upload)->finish().ok());
  upload->reset();
  open();
  upload = files_->begin(id_, 0, 2, list);
  EXPECT_EQ((*upload)->received().count(), 3);
  EXPECT_TRUE((*upload)->finish().ok());
}

TEST_F(CheckpointFilesTest, AnotherWritersFilesBeginAnew) {
  ASSERT_TRUE((*files_->begin(id_, 0, 1, {entry("a", "one")}))->write(bytes("on")).ok());
  EXPECT_EQ((*files_->begin(id_, 0, 1, {entry("a", "two")}))->received().count(), 0);
}

TEST_F(CheckpointFilesTest, WhatWasReceivedGoesWithItsCheckpoint) {
  ASSERT_TRUE((*files_->begin(id_, 0, 1, {entry("a", "one")}))->write(bytes("on")).ok());
  EXPECT_FALSE(nothing_left());
  ASSERT_TRUE(files_->prune({CheckpointId(8)}).ok());
  EXPECT_TRUE(nothing_left());
}

TEST_F(CheckpointFilesTest, PartsOfStagesBecomeOneFolderWhenAllAreThere) {
  const std::vector<FileEntry> first{entry("config.json", "{}"), entry("state/1.bin", "one")};
  const std::vector<FileEntry> second{entry("state/2.bin", "two")};
  const auto put = [&](StageIndex stage, const std::vector<FileEntry>& list,
                       const std::string& content) {
    auto upload = files_->begin(id_, stage, 2, list);
    if (!upload.ok()) return false;
    const auto rest = bytes(content).subspan(static_cast<std::size_t>((*upload)->received().n));
    return (*upload)->write(rest).ok() && (*upload)->finish().ok();
  };
  ASSERT_TRUE(put(1, second, "two"));
  EXPECT_FALSE(std::filesystem::exists(files_->folder(id_)));
  open();                              // a restart keeps whole parts
  ASSERT_TRUE(put(1, second, "two"));  // said again
  EXPECT_FALSE(std::filesystem::exists(files_->folder(id_)));
  ASSERT_TRUE(put(0, first, "{}one"));
  EXPECT_EQ(read(id_, {first[0], first[1], second[0]}), "{}onetwo");
  ASSERT_TRUE(files_->remove(id_).ok());
  EXPECT_TRUE(nothing_left());
}

TEST_F(CheckpointFilesTest, RemovingACheckpointTakesItsPartsAlong) {
  auto upload = files_->begin(id_, 1, 2, {entry("b", "two")});
  ASSERT_TRUE((*upload)->write(bytes("two")).ok());
  ASSERT_TRUE((*upload)->finish().ok());
  ASSERT_TRUE(files_->remove(id_).ok());
  EXPECT_TRUE(nothing_left());
}

TEST_F(CheckpointFilesTest, AWrongHashIsDataLossAndLeavesNothing) {
  {
    auto upload = files_->begin(id_, 0, 1, {entry("a", "right")});
    const Status status = (*upload)->write(bytes("wrong"));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kDataLoss);
  }
  EXPECT_TRUE(nothing_left());
}

TEST_F(CheckpointFilesTest, TooFewAndTooManyBytesAreRefused) {
  {
    auto upload = files_->begin(id_, 0, 1, {entry("a", "right")});
    ASSERT_TRUE((*upload)->write(bytes("rig")).ok());
    EXPECT_EQ((*upload)->finish().error().code, Code::kInvalidArgument);
  }
  auto upload = files_->begin(id_, 0, 1, {entry("a", "right")});
  EXPECT_EQ((*upload)->write(bytes("right!")).error().code, Code::kInvalidArgument);
}

TEST_F(CheckpointFilesTest, PathsThatLeaveTheFolderAreRefused) {
  for (const char* path : {"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "a\nb"}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
    EXPECT_FALSE(files_->begin(id_, 0, 1, {entry(path, "x")}).ok()) << path;
  }
  EXPECT_TRUE(is_safe_path("model-00001-of-00002.safetensors"));
  EXPECT_TRUE(is_safe_path("optimizer/..a/b"));
  EXPECT_FALSE(files_->begin(id_, 0, 1, {entry("a", "x"), entry("a", "x")}).ok());
  EXPECT_FALSE(files_->begin(id_, 0, 1, {}).ok());
}

TEST_F(CheckpointFilesTest, ACheckpointHasOneUploadAtATime) {
  auto first = files_->begin(id_, 0, 1, {entry("a", "x")});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(files_->begin(id_, 0, 1, {entry("a", "x")}).error().code, Code::kConflict);
  first->reset();
  EXPECT_TRUE(files_->begin(id_, 0, 1, {entry("a", "x")}).ok());
}

TEST_F(CheckpointFilesTest, WhatDoesNotFitIsRefusedBeforeAByteIsWritten) {
  const auto refused =
      files_->begin(id_, 0, 1, {{"a", Bytes(std::int64_t{1} << 60), sha256_of("")}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().remedy, ::testing::HasSubstr("free space"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(CheckpointFilesTest, RoomForTheTablesIsLeft) {
  const std::vector<FileEntry> list{entry("model", "0123456789")};
  room_ = kRoomForTables + Bytes(9);
  const auto refused = files_->begin(id_, 0, 1, list);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("kept for the coordinator's tables"));
  room_ = kRoomForTables + Bytes(10);
  auto upload = files_->begin(id_, 0, 1, list);
  ASSERT_TRUE(upload.ok()) << to_string(upload.error());
  ASSERT_TRUE((*upload)->write(bytes("01234")).ok());
  room_ = kRoomForTables;  // somebody else has filled it
  EXPECT_EQ((*upload)->write(bytes("56789")).error().code, Code::kResourceExhausted);
  upload->reset();
  EXPECT_TRUE(nothing_left());
  room_ = kRoomForTables * 2;
  EXPECT_TRUE(files_->begin(id_, 0, 1, list).ok());
}

TEST_F(CheckpointFilesTest, LeftoversGoAtTheNextStart) {
  std::filesystem::create_directories(folder_.path() + "/ckpt_3.partial/x");
  std::filesystem::create_directories(folder_.path() + "/ckpt_4.deleted");
  std::filesystem::create_directories(folder_.path() + "/ckpt_5");
  open();
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/ckpt_3.partial"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/ckpt_4.deleted"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/ckpt_5"));
}

TEST_F(CheckpointFilesTest, WhatNoRecordNamesIsPruned) {
  for (const char* name :
       {"ckpt_3", "ckpt_3.1.part", "ckpt_4.0.part", "ckpt_5", "ckpt_50", "notes"}) {
    std::filesystem::create_directories(folder_.path() + "/" + name + "/x");
  }
  ASSERT_TRUE(files_->prune({CheckpointId(3), CheckpointId(50)}).ok());
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    left.insert(entry.path().filename().string());
  }
  EXPECT_EQ(left, (std::set<std::string>{"ckpt_3", "ckpt_3.1.part", "ckpt_50", "notes"}));
}

TEST_F(CheckpointFilesTest, AStoredFileThatShrankIsDataLoss) {
  const std::vector<FileEntry> list{entry("a", "content")};
  auto upload = files_->begin(id_, 0, 1, list);
  ASSERT_TRUE((*upload)->write(bytes("content")).ok());
  ASSERT_TRUE((*upload)->finish().ok());
  std::filesystem::resize_file(files_->folder(id_) + "/a", 3);
  EXPECT_THAT(read(id_, list), ::testing::StartsWith("error"));
}

}  // namespace
}  // namespace shoal::coordinator
