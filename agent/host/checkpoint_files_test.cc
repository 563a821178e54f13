#include "agent/host/checkpoint_files.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

const std::atomic<bool> kWanted{false};

class CheckpointFiles : public testing::Test {
 protected:
  CheckpointFiles() {
    make_source();
    files_ = *check_written(source_, {}, kWanted);
  }
  void make_source() {
    fs::create_directories(source_ + "/resume");
    std::ofstream(source_ + "/model.safetensors") << std::string(3'000'000, 'm');
    std::ofstream(source_ + "/resume/a_empty") << "";
    std::ofstream(source_ + "/resume/outer.bin") << "outer";
    std::ofstream(source_ + "/zz_empty") << "";
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

TEST_F(CheckpointFiles, HashingStopsWhenTold) {
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(check_written(source_, {}, cancelled).error().code, Code::kCancelled);
  EXPECT_FALSE(check_written(folder_.path() + "/nowhere", {}, kWanted).ok());
}

TEST_F(CheckpointFiles, AreThoseThatTheirWriterReported) {
  const auto checked = check_written(source_, files_, kWanted);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(*checked, files_);
}

// One thing that happens to a file, and what the error says.
struct Damage {
  const char* name;
  std::function<void(const std::string& path)> act;
  const char* says;
};

std::vector<Damage> damages() {
  const auto replace = [](const std::string& path) { fs::remove(path); };
  return {{"deleted", [](const std::string& path) { fs::remove(path); }, "missing"},
          {"truncated", [](const std::string& path) { fs::resize_file(path, 2); }, "bytes"},
          {"grown", [](const std::string& path) { std::ofstream(path, std::ios::app) << "x"; },
           "bytes"},
          {"a FIFO",
           [=](const std::string& path) {
             replace(path);
             EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
           },
           "a FIFO"},
          {"a link",
           [=](const std::string& path) {
             replace(path);
             fs::create_symlink("/etc/hostname", path);
           },
           "a link"},
          {"a folder",
           [=](const std::string& path) {
             replace(path);
             fs::create_directory(path);
           },
           "a folder"}};
}

void flip(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(0).put(byte);
}

TEST_F(CheckpointFiles, DamageBeforeTheComparisonIsNamed) {
  for (const Damage& damage : damages()) {
    for (const FileEntry& file : files_) {
      if (file.size == Bytes() && damage.says == std::string("bytes")) continue;
      fs::remove_all(source_);
      make_source();
      damage.act(source_ + "/" + file.path);
      const auto checked = check_written(source_, files_, kWanted);
      ASSERT_FALSE(checked.ok()) << damage.name << " " << file.path;
      EXPECT_EQ(checked.error().code, Code::kDataLoss);
      EXPECT_EQ(checked.error().field, file.path) << damage.name;
      EXPECT_NE(checked.error().message.find(damage.says), std::string::npos)
          << checked.error().message;
    }
  }
}

TEST_F(CheckpointFiles, WhatTheWriterDidNotReportIsNamed) {
  std::ofstream(source_ + "/resume/other") << "";
  const auto checked = check_written(source_, files_, kWanted);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().field, "resume/other");
}

// A writer of protocol 4 reports nothing, and its folder is listed: what is no file is refused.
TEST_F(CheckpointFiles, AnythingButAFileIsRefusedWithoutAReport) {
  for (const Damage& damage : damages()) {
    if (!std::string(damage.says).starts_with("a ") || damage.says == std::string("a folder"))
      continue;
    fs::remove_all(source_);
    make_source();
    damage.act(source_ + "/resume/outer.bin");
    const auto hashed = check_written(source_, {}, kWanted);
    ASSERT_FALSE(hashed.ok()) << damage.name;
    EXPECT_EQ(hashed.error().field, "resume/outer.bin");
  }
}

TEST_F(CheckpointFiles, DamageAfterTheComparisonIsNamedByTheUpload) {
  std::vector<Damage> all = damages();
  all.push_back({"flipped", flip, "SHA-256"});
  const auto take = [](std::span<const std::byte>) { return true; };
  for (const Damage& damage : all) {
    for (const FileEntry& file : files_) {
      if (file.size == Bytes() && damage.name == std::string("flipped")) continue;
      if (file.size == Bytes() && damage.says == std::string("bytes")) continue;
      fs::remove_all(source_);
      make_source();
      ASSERT_TRUE(check_written(source_, files_, kWanted).ok());
      damage.act(source_ + "/" + file.path);
      const Status sent = OutgoingFiles(source_, files_).read_all(Bytes(), take);
      ASSERT_FALSE(sent.ok()) << damage.name << " " << file.path;
      EXPECT_EQ(sent.error().code, Code::kDataLoss);
      EXPECT_EQ(sent.error().field, file.path) << damage.name;
    }
  }
}

TEST_F(CheckpointFiles, AreReadOnceFromWhereTheCoordinatorIs) {
  std::string sent;
  const auto take = [&](std::span<const std::byte> bytes) {
    sent.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  };
  OutgoingFiles outgoing(source_, files_);
  EXPECT_TRUE(outgoing.read_all(Bytes(2'999'999), take).ok());
  EXPECT_EQ(sent, "mouter");
  sent.clear();
  EXPECT_TRUE(OutgoingFiles(source_, files_).read_all(Bytes(3'000'002), take).ok());
  EXPECT_EQ(sent, "ter");
  flip(source_ + "/model.safetensors");
  EXPECT_EQ(OutgoingFiles(source_, files_).read_all(Bytes(2'999'999), take).error().field,
            "model.safetensors")
      << "what was sent before is compared, too";
}

// An object store takes a file in parts: all of them come from one descriptor.
TEST_F(CheckpointFiles, PartsAreOfTheFileThatWasOpenedFirst) {
  const auto take = [](std::span<const std::byte>) { return true; };
  OutgoingFiles outgoing(source_, files_);
  ASSERT_TRUE(outgoing.read(0, 0, 1'000'000, take).ok());
  const int descriptor = outgoing.descriptor();
  fs::remove(source_ + "/model.safetensors");
  std::ofstream(source_ + "/model.safetensors") << std::string(3'000'000, 'x');
  EXPECT_TRUE(outgoing.read(0, 1'000'000, 3'000'000, take).ok());
  EXPECT_EQ(outgoing.descriptor(), descriptor);
}

}  // namespace
}  // namespace shoal::agent
