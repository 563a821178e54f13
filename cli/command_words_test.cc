#include "cli/command_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using testing::ElementsAre;

TEST(CommandWords, TheNameThatACommandHasElsewhereIsUnderstood) {
  const std::vector<std::string> job = {"validate", "submit", "ls", "get", "cancel", "watch"};
  EXPECT_EQ(command_meant("list", job), "ls");
  EXPECT_EQ(command_meant("delete", job), "cancel");
  EXPECT_EQ(command_meant("start", job), "submit");
  EXPECT_EQ(command_meant("sumbit", job), "submit");
  EXPECT_EQ(command_meant("frobnicate", job), std::nullopt);
  EXPECT_EQ(command_meant("delete", {"ls", "rm", "cancel"}), "cancel");
  EXPECT_EQ(command_meant("delete", {"ls", "rm"}), "rm");
  EXPECT_EQ(command_meant("delete", {"ls", "get"}), std::nullopt) << "it has no such command";
  EXPECT_EQ(command_meant("start", {"up", "down"}), "up");
}

TEST(CommandWords, CommandsAreListed) {
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
}

TEST(CommandWords, AnEmptyValueIsAWordOfItsOwn) {
  EXPECT_THAT(split_empty_values({"generate", "--prompt=", "--tokens", "10"}),
              ElementsAre("generate", "--prompt", "", "--tokens", "10"));
  EXPECT_THAT(split_empty_values({"--prompt=a", "--set", "a.b=", "--x=y="}),
              ElementsAre("--prompt=a", "--set", "a.b=", "--x=y="));
  EXPECT_THAT(split_empty_values({"--", "--prompt="}), ElementsAre("--", "--prompt="));
}

}  // namespace
}  // namespace shoal::cli
