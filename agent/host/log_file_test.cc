#include "agent/host/log_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"
#include "threads/file_content.h"

namespace shoal::agent {
namespace {

TEST(LogFile, RotatesAtItsSize) {
  TestFolder folder;
  const std::string path = folder.path() + "/x.log";
  {
    LogFile log(path, 10, 2);
    for (const char* line : {"aaaaaaa\n", "bbbbbbb\n", "ccccccc\n", "d\n"}) log.append(line);
  }
  EXPECT_EQ(file_content(path), "ccccccc\nd\n");
  EXPECT_EQ(file_content(path + ".1"), "bbbbbbb\n");
  EXPECT_EQ(file_content(path + ".2"), "aaaaaaa\n");
  LogFile again(path, 10, 2);
  again.append("e\n");
  EXPECT_EQ(file_content(path), "e\n");
  EXPECT_FALSE(std::filesystem::exists(path + ".3"));
}

}  // namespace
}  // namespace shoal::agent
