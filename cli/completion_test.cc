#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() {
    tree_.add_option("--addr", text_);
    CLI::App* job = tree_.add_subcommand("job");
    job->add_flag("--json", flag_);
    CLI::App* get = job->add_subcommand("get");
    get->add_option("JOB", text_);
    get->add_option("ROUND", text_);
    get->add_flag("--json", flag_);
    get->add_option("--agent", text_);
    get->add_option("--level", text_)->check(CLI::IsMember({"info", "warning"}));
    job->add_subcommand("ls")->add_option("KIND", text_)->check(CLI::IsMember({"old", "new"}));
  }

  std::string text_;
  bool flag_ = false;
  CLI::App tree_{"", "shoal"};
};

TEST_F(CompletionTest, CommandsThatBeginWithWhatWasTyped) {
  EXPECT_THAT(complete(tree_, {""}).words, ElementsAre("job"));
  EXPECT_THAT(complete(tree_, {"job", ""}).words, UnorderedElementsAre("get", "ls"));
  EXPECT_THAT(complete(tree_, {"job", "l"}).words, ElementsAre("ls"));
  EXPECT_THAT(complete(tree_, {"jobs", "x"}).words, IsEmpty());
}

TEST_F(CompletionTest, OptionsOfTheCommandThatTheLineNames) {
  EXPECT_THAT(complete(tree_, {"job", "get", "--l"}).words, ElementsAre("--level"));
  EXPECT_THAT(complete(tree_, {"job", "get", "--"}).words, Contains("--json"));
  EXPECT_THAT(complete(tree_, {"--a"}).words, ElementsAre("--addr"));
}

TEST_F(CompletionTest, ValuesThatAnOptionAccepts) {
  EXPECT_THAT(complete(tree_, {"job", "get", "--level", ""}).words, ElementsAre("info", "warning"));
  EXPECT_THAT(complete(tree_, {"job", "get", "--level", "w"}).words, ElementsAre("warning"));
  EXPECT_EQ(complete(tree_, {"job", "get", "--agent", ""}).names_of, NamesOf::kAgents);
  EXPECT_THAT(complete(tree_, {"--addr", ""}).words, IsEmpty());
  EXPECT_THAT(complete(tree_, {"job", "ls", "o"}).words, ElementsAre("old"));
  EXPECT_THAT(complete(tree_, {"job", "ls", "old", ""}).words, IsEmpty());
}

TEST_F(CompletionTest, NamesWhereAJobIsDueAndOnlyThere) {
  EXPECT_EQ(complete(tree_, {"job", "get", ""}).names_of, NamesOf::kJobs);
  EXPECT_EQ(complete(tree_, {"--addr", "x", "job", "get", "--json", ""}).names_of, NamesOf::kJobs);
  EXPECT_EQ(complete(tree_, {"job", "get", "mine", ""}).names_of, NamesOf::kNothing);
  EXPECT_EQ(complete(tree_, {"job", ""}).names_of, NamesOf::kNothing);
}

// Each shell has to be able to read its own script.
TEST(CompletionScript, IsThereForEachShellAndNoOther) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    ASSERT_TRUE(completion_script(shell)) << shell;
    EXPECT_NE(completion_script(shell)->find("shoal __complete"), std::string::npos) << shell;
  }
  EXPECT_FALSE(completion_script("tcsh"));
}

}  // namespace
}  // namespace shoal::cli
