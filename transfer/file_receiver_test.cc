// Files in pieces, interrupted anywhere: what arrived does not come again, and only whole files
// count.
#include "transfer/file_receiver.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "transfer/files.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string fresh_folder() {
  std::string path = "/tmp/shoal-test-XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

class FileReceiverTest : public testing::Test {
 protected:
  FileReceiverTest() {
    fs::create_directories(source_ + "/state");
    put("model.safetensors", std::string(700'000, 'm') + "end");
    put("state/a_empty", "");
    put("state/outer.bin", "outer");
    put("zz_empty", "");
  }
  ~FileReceiverTest() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    std::ofstream(source_ + "/" + path, std::ios::binary) << text;
    files_.push_back({path, Bytes(static_cast<std::int64_t>(text.size())), sha256_of(text)});
  }
  std::string stream_from(Bytes from) const {
    std::string stream;
    const Status read = read_files(source_, files_, from, [&](std::span<const std::byte> piece) {
      stream.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return true;
    });
    EXPECT_TRUE(read.ok());
    return stream;
  }
  std::unique_ptr<FileReceiver> open() {
    auto opened = FileReceiver::open(folder_, files_);
    EXPECT_TRUE(opened.ok());
    return std::move(opened).value();
  }
  // Sends from where the receiver is, `count` bytes at most.
  static Status send(FileReceiver& receiver, const std::string& rest, std::size_t count) {
    return receiver.write(bytes_of(std::string_view(rest).substr(0, count)));
  }
  std::string content(const std::string& path) const {
    std::ifstream in(target_ + "/" + path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const std::string root_ = fresh_folder();
  const std::string source_ = root_ + "/source", folder_ = root_ + "/in.part",
                    target_ = root_ + "/in";
  std::vector<FileEntry> files_;
};

TEST_F(FileReceiverTest, GoesOnWhereItWasAfterEveryBreak) {
  const std::int64_t total = total_size(files_).count();
  std::int64_t sent = 0;
  for (const std::size_t piece : {1u, 300'000u, 262'144u, 137'858u}) {
    const auto receiver = open();
    EXPECT_EQ(receiver->received().count(), sent);
    ASSERT_TRUE(send(*receiver, stream_from(receiver->received()), piece).ok());
    sent += static_cast<std::int64_t>(piece);
    EXPECT_EQ(receiver->finish(target_).error().code, Code::kInvalidArgument);
  }
  const auto receiver = open();
  EXPECT_EQ(receiver->received().count(), total - 5);
  ASSERT_TRUE(send(*receiver, stream_from(receiver->received()), 5).ok());
  EXPECT_TRUE(receiver->complete());
  ASSERT_TRUE(receiver->finish(target_).ok());
  EXPECT_EQ(content("model.safetensors"), std::string(700'000, 'm') + "end");
  EXPECT_EQ(content("state/outer.bin"), "outer");
  EXPECT_TRUE(fs::exists(target_ + "/zz_empty"));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(FileReceiverTest, TheListSaysWhatTheFolderIsOf) {
  EXPECT_EQ(FileReceiver::reopen(folder_).error().code, Code::kNotFound);
  ASSERT_TRUE(send(*open(), stream_from({}), 1000).ok());
  const auto again = FileReceiver::reopen(folder_);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->files(), files_);
  EXPECT_EQ((*again)->received().count(), 1000);
}

TEST_F(FileReceiverTest, OtherFilesBeginAnew) {
  ASSERT_TRUE(send(*open(), stream_from({}), 1000).ok());
  put("more", "x");
  EXPECT_EQ(open()->received().count(), 0);
}

TEST_F(FileReceiverTest, WhatWasPlacedCanBeTakenBack) {
  ASSERT_TRUE(FileReceiver::take_back(target_, folder_).ok()) << "nothing is there";
  {
    const auto receiver = open();
    ASSERT_TRUE(send(*receiver, stream_from({}), 1'000'000).ok());
    ASSERT_TRUE(receiver->finish(target_).ok());
  }
  ASSERT_TRUE(FileReceiver::take_back(target_, folder_).ok());
  const auto receiver = open();
  EXPECT_TRUE(receiver->complete());
  ASSERT_TRUE(receiver->finish(target_).ok());
  ASSERT_TRUE(FileReceiver::discard(target_).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1) << "the source only";
}

TEST_F(FileReceiverTest, AWrongByteIsDataLossAndItsFileBeginsAnew) {
  std::string stream = stream_from({});
  stream[5] ^= 1;
  const auto receiver = open();
  EXPECT_EQ(send(*receiver, stream, stream.size()).error().code, Code::kDataLoss);
  EXPECT_EQ(receiver->received().count(), 0);
  EXPECT_EQ(open()->received().count(), 0);
}

// The machine went down before the older part reached the disk: the sender is not to blame.
TEST_F(FileReceiverTest, ATornPartBeginsAnewAndIsWorthARetry) {
  ASSERT_TRUE(send(*open(), stream_from({}), 1000).ok());
  std::fstream(folder_ + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary)
      .write("\0\0\0", 3);
  const auto receiver = open();
  EXPECT_EQ(receiver->received().count(), 1000);
  const std::string rest = stream_from(Bytes(1000));
  EXPECT_EQ(send(*receiver, rest, rest.size()).error().code, Code::kUnavailable);
  EXPECT_EQ(open()->received().count(), 0);
}

TEST_F(FileReceiverTest, AWholeFileThatWasSpoiledOnTheDiskBeginsAnew) {
  const std::string stream = stream_from({});
  ASSERT_TRUE(send(*open(), stream, stream.size() - 1).ok());
  std::fstream(folder_ + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary)
      .write("x", 1);
  EXPECT_EQ(open()->received().count(), 0);
}

TEST_F(FileReceiverTest, TooManyBytesAreRefused) {
  const auto receiver = open();
  const std::string stream = stream_from({}) + "x";
  EXPECT_EQ(send(*receiver, stream, stream.size()).error().code, Code::kInvalidArgument);
}

TEST_F(FileReceiverTest, AFileThatShrankIsNoticedByTheSender) {
  std::ofstream(source_ + "/state/outer.bin") << "o";
  const auto take = [](std::span<const std::byte>) { return true; };
  EXPECT_EQ(read_files(source_, files_, {}, take).error().code, Code::kDataLoss);
  fs::remove(source_ + "/state/outer.bin");
  EXPECT_EQ(read_files(source_, files_, {}, take).error().code, Code::kDataLoss);
  EXPECT_EQ(read_files(source_, files_, {}, [](auto) { return false; }).error().code,
            Code::kCancelled);
}

// It may be as good as it was: the next request gets it, and nothing takes it for damaged.
TEST_F(FileReceiverTest, AFileThatCannotBeOpenedIsNotTakenForDamaged) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};  // this process may open no more files
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto take = [](std::span<const std::byte>) { return true; };
  const Status read = read_files(source_, files_, {}, take);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kUnavailable);
  EXPECT_EQ(read.error().field, files_.front().path);
}

// What stays so is said at once; what may pass is tried again.
TEST_F(FileReceiverTest, ADiskThatTakesNothingIsToldFromOneThatFails) {
  for (const int number : {ENOSPC, EDQUOT, EROFS, EACCES}) {
    EXPECT_EQ(disk_error("write the file", "/a", number).code, Code::kResourceExhausted) << number;
  }
  EXPECT_EQ(disk_error("write the file", "/a", EIO).code, Code::kUnavailable);
}

TEST_F(FileReceiverTest, ADigestNamesTheList) {
  const std::string digest = list_digest(files_);
  EXPECT_EQ(digest.size(), 64u);
  files_.back().path += "x";
  EXPECT_NE(list_digest(files_), digest);
}

TEST_F(FileReceiverTest, DurableFilesReplaceTheOldOne) {
  ASSERT_TRUE(write_file_durably(root_ + "/a", "one").ok());
  ASSERT_TRUE(write_file_durably(root_ + "/a", "two").ok());
  std::ifstream in(root_ + "/a");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "two");
  EXPECT_FALSE(write_file_durably(root_ + "/none/a", "x").ok());
}

}  // namespace
}  // namespace shoal
