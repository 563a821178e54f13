#include "transfer/file_writer.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

namespace shoal {
namespace {

namespace fs = std::filesystem;

TEST(FileWriter, EntryDescribesTheBytesThatWereWritten) {
  const fs::path path = fs::path(testing::TempDir()) / "shoal_file_writer_test";
  std::ofstream(path) << "a longer text that was there before";
  FileWriter file(path);
  ASSERT_TRUE(file.write("one ").ok());
  std::ofstream(path, std::ios::app) << "by another";
  ASSERT_TRUE(file.write("two").ok());
  const auto entry = file.finish();
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(*entry, (FileEntry{"shoal_file_writer_test", Bytes(7), sha256_of("one two")}));
}

TEST(FileWriter, RefusesAFolderThatIsMissingAndAFullDisk) {
  const auto entry = write_whole_file("/proc/shoal/none", "text");
  ASSERT_FALSE(entry.ok());
  EXPECT_EQ(entry.error().field, "/proc/shoal/none");
  const auto full = write_whole_file("/dev/full", "text");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Code::kResourceExhausted);
}

TEST(FileWriter, WritesMoreThanOnePiece) {
  const fs::path path = fs::path(testing::TempDir()) / "shoal_file_writer_long_test";
  const std::string text(3'000'001, 'x');
  const auto entry = write_whole_file(path, text);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->size, Bytes(3'000'001));
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(sha256_of(std::string(std::istreambuf_iterator<char>(file), {})), entry->sha256);
}

}  // namespace
}  // namespace shoal
