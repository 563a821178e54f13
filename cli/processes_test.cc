#include "cli/processes.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

class Processes : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoal-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string log() const { return folder_ + "/log"; }
  std::string folder_;
};

TEST_F(Processes, LiveUntilTheyAreStopped) {
  const auto started = launch({"sleeper", {"/bin/sh", "-c", "exec sleep 1000"}, log(), true});
  ASSERT_TRUE(started.ok());
  EXPECT_TRUE(is_alive(*started));
  ProcessRef recycled = *started;
  recycled.start += 1;
  EXPECT_FALSE(is_alive(recycled)) << "the same id with another start is another process";
  stop({*started}, 5);
  EXPECT_FALSE(is_alive(*started));
}

// A process that ends in time is not killed, and the wait ends with it.
TEST_F(Processes, HaveTimeToEnd) {
  const auto started = launch(
      {"polite",
       {"/bin/sh", "-c", "trap 'echo bye; exit 0' TERM; echo there; while :; do sleep 0.05; done"},
       log(),
       true});
  ASSERT_TRUE(started.ok());
  while (is_alive(*started) && last_lines(log(), 1).empty()) {
  }
  const auto before = std::chrono::steady_clock::now();
  stop({*started}, 60);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30));
  EXPECT_FALSE(is_alive(*started));
  EXPECT_EQ(last_lines(log(), 1), "\n    bye");
}

TEST_F(Processes, DeafOnesAreKilled) {
  const auto started =
      launch({"deaf",
              {"/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"},
              log(),
              true});
  ASSERT_TRUE(started.ok());
  while (is_alive(*started) && last_lines(log(), 1).empty()) {
  }
  stop({*started}, 0.1);
  EXPECT_FALSE(is_alive(*started));
}

TEST_F(Processes, ABinaryThatIsNotThereIsAnError) {
  const auto started = launch({"none", {folder_ + "/none"}, log(), true});
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message.find(folder_ + "/none"), std::string::npos);
}

TEST_F(Processes, LastLinesOfALog) {
  std::ofstream(log()) << "one\ntwo\nthree\n";
  EXPECT_EQ(last_lines(log(), 2), "\n    two\n    three");
  EXPECT_EQ(last_lines(folder_ + "/none", 2), "");
}

}  // namespace
}  // namespace shoal::cli
