#include "threads/file_content.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace shoal {
namespace {

class FileContent : public testing::Test {
 protected:
  FileContent() : path_((std::filesystem::path(testing::TempDir()) / "file_content").string()) {}
  ~FileContent() override { std::filesystem::remove_all(path_); }

  std::string path_;
};

TEST_F(FileContent, HasEveryByteOfFilesOfAnySize) {
  for (const std::size_t size : {0, 1, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 3 << 14}) {
    std::string content(size, 'x');
    if (size > 1) content[size / 2] = '\0';
    std::ofstream(path_, std::ios::binary) << content;
    EXPECT_EQ(file_content(path_), content) << size;
  }
}

TEST_F(FileContent, IsNoneForAMissingFileAndAFolder) {
  EXPECT_EQ(file_content(path_), std::nullopt);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(file_content(path_), std::nullopt);
}

}  // namespace
}  // namespace shoal
