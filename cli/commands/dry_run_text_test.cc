#include "cli/commands/dry_run_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DryRunText, TheCommandThatStartsTheJobRepeatsTheChanges) {
  SubmitOptions options;
  options.file = "mine.toml";
  EXPECT_EQ(submit_command(options), "shoal job submit mine.toml");
  options.file = "my jobs/a.toml";
  options.changes = {"other", {"train.lr=0.5", "data.train=it's \"here\".txt"}};
  options.from = "old";
  EXPECT_EQ(submit_command(options),
            "shoal job submit 'my jobs/a.toml' --name other --set train.lr=0.5 "
            "--set 'data.train=it'\\''s \"here\".txt' --from old");
}

TEST(DryRunText, NotesAreSentencesAndAnOlderCoordinatorHasNone) {
  EXPECT_THAT(notes_of(Json::parse(R"({"notes": ["a", 7, "b"]})")), ElementsAre("a", "b"));
  EXPECT_THAT(notes_of(Json::parse("{}")), IsEmpty());
  EXPECT_THAT(notes_of(Json::parse(R"({"notes": null})")), IsEmpty());
}

TEST(DryRunText, AProgramSaysItselfHowLargeItsModelIs) {
  Json program = Json::parse(
      R"({"estimate": {"parameters": 870000, "training_memory_bytes": 72e6, "rounds": 6},
          "spec": {"trainer": {"kind": "python"}, "swarm": {"stages": 1}}})");
  EXPECT_EQ(estimate_text(program), "rounds           6\n");
  program["spec"]["swarm"]["stages"] = 2;
  EXPECT_THAT(estimate_text(program), HasSubstr("parameters       870k\n"));
}

TEST(DryRunText, MemoryIsThatOfOneReplica) {
  Json whole = Json::parse(
      R"({"estimate": {"parameters": 246000, "training_memory_bytes": 26200000, "rounds": 6}})");
  EXPECT_EQ(estimate_text(whole),
            "parameters       246k\ntraining memory  26.2 MB per replica\nrounds           6\n");
  whole["plan"] = Json::parse(R"({"stages": [{"memory_bytes": 12e6}, {"memory_bytes": 14e6}]})");
  EXPECT_THAT(estimate_text(whole), HasSubstr("14.0 MB per replica of the largest stage\n"));
  whole["estimate"]["rounds"] = nullptr;
  EXPECT_THAT(estimate_text(whole), HasSubstr("rounds           unknown until"));
}

}  // namespace
}  // namespace shoal::cli
