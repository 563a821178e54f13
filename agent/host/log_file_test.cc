#include "agent/host/log_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(LogFile, RotatesAtItsSize) {
  TestFolder folder;
  const std::string path = folder.path() + "/x.log";
  {
    LogFile log(path, 10, 2);
    for (const char* line : {"aaaaaaa\n", "bbbbbbb\n", "ccccccc\n", "d\n"}) log.append(line);
  }
  EXPECT_EQ(text_of(path), "ccccccc\nd\n");
  EXPECT_EQ(text_of(path + ".1"), "bbbbbbb\n");
  EXPECT_EQ(text_of(path + ".2"), "aaaaaaa\n");
  LogFile again(path, 10, 2);
  again.append("e\n");
  EXPECT_EQ(text_of(path), "e\n");
  EXPECT_FALSE(std::filesystem::exists(path + ".3"));
}

}  // namespace
}  // namespace shoal::agent
