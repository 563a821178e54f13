#include "cli/job_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

constexpr const char* kText = R"(name = "tiny"

[data]
train = "texts/a.txt"

[train]
lr = 1e-3
betas = [0.9, 0.95]
)";

Result<JobFile> parsed(const std::string& text, const JobFileChanges& changes = {}) {
  return JobFile::parse(text, "tiny.toml", "/jobs", changes);
}

TEST(JobFile, IsSentAsItWasWritten) {
  const auto file = parsed(kText);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->text(), kText);
  EXPECT_STREQ(file->media_type(), "application/toml");
  EXPECT_EQ(file->folder(), "/jobs");
  EXPECT_EQ(file->spec().at("data").at("train"), "texts/a.txt");
  EXPECT_EQ(file->spec().at("train").at("lr"), 1e-3);
  EXPECT_EQ(file->spec().at("train").at("betas"), Json::parse("[0.9, 0.95]"));
}

TEST(JobFile, ChangesAreWrittenIntoTheText) {
  const auto file = parsed("# why\n" + std::string(kText), {"other", {"train.lr=0.5"}});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->text(),
            "# why\nname = \"other\"\n\n[data]\ntrain = \"texts/a.txt\"\n\n[train]\nlr = 0.5\n"
            "betas = [0.9, 0.95]\n");
}

TEST(JobFile, JsonIsSentAsJson) {
  const std::string text = R"({"name": "tiny",  "train": {"lr": 1}})";
  const auto as_is = JobFile::parse(text, "tiny.json", "/jobs", {});
  ASSERT_TRUE(as_is.ok());
  EXPECT_EQ(as_is->text(), text);
  EXPECT_STREQ(as_is->media_type(), "application/json");
  const auto changed = JobFile::parse(text, "tiny.json", "/jobs", {"", {"train.lr=2"}});
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(Json::parse(changed->text()), changed->spec());
}

TEST(JobFile, WhatCannotBeChangedInTheTextIsRefusedByName) {
  const auto file = parsed("name = \"tiny\"\ntrain = { lr = 1 }\n", {"", {"train.steps=5"}});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().field, "--set");
  EXPECT_NE(file.error().message.find("train.steps"), std::string::npos);
  EXPECT_TRUE(parsed("train = { lr = 1 }\n", {"", {"train.lr=5"}}).ok()) << "a value is a value";
}

TEST(JobFile, SetsAndNameChangeIt) {
  const auto file = parsed(
      kText, {"other",
              {"train.lr=0.5", "sync.algorithm=none", "train.betas=[0.8,0.9]", "sync.outer.lr=1"}});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->spec().at("name"), "other");
  EXPECT_EQ(file->spec().at("train").at("lr"), 0.5);
  EXPECT_EQ(file->spec().at("train").at("betas"), Json::parse("[0.8, 0.9]"));
  EXPECT_EQ(file->spec().at("sync").at("algorithm"), "none");
  EXPECT_EQ(file->spec().at("sync").at("outer").at("lr"), 1);
}

TEST(JobFile, RefusesBadSets) {
  EXPECT_EQ(parsed(kText, {"", {"train.lr"}}).error().field, "--set");
  EXPECT_EQ(parsed(kText, {"", {"name.x=1"}}).error().field, "--set");
}

TEST(JobFile, NamesTheLineOfAField) {
  const auto file = parsed(kText, {"", {"train.seed=7"}});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->locate("/train/lr"), "tiny.toml:7: ");
  EXPECT_EQ(file->locate("/train/betas/1"), "tiny.toml:8: ");
  EXPECT_EQ(file->locate("/train/missing"), "tiny.toml:6: ");
  EXPECT_EQ(file->locate("/train/seed"), "--set: ");
  EXPECT_EQ(file->locate("/model/layers"), "tiny.toml: ");
}

TEST(JobFile, APlaceOfSomethingElseIsNotInTheFile) {
  const auto file = parsed(kText, {});
  ASSERT_TRUE(file.ok());
  for (const char* pointer : {"", "scope", "token", "train.lr", "train/lr", "/query/dry_run"}) {
    EXPECT_EQ(file->locate(pointer), "") << pointer;
  }
  for (const char* pointer : {"/", "//", "/x//", "/token"}) {
    EXPECT_EQ(file->locate(pointer), "tiny.toml: ") << pointer;
  }
}

TEST(JobFile, SyntaxErrorsNameLineAndColumn) {
  const auto file = parsed("name = \"tiny\"\n[train\n");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kValidation);
  EXPECT_EQ(file.error().message.rfind("tiny.toml:2:", 0), 0u) << file.error().message;
}

TEST(JobFile, SyntaxErrorsSayWhatIsWrongWithTheText) {
  const auto message = [](const std::string& text) { return parsed(text).error().message; };
  EXPECT_EQ(message("name = \"tiny\n[train]\n"),
            "tiny.toml:1:13: a text has no closing quote on its line");
  EXPECT_EQ(message("[train]\nlr = 1\nlr = 2\n"), "tiny.toml:3:6: 'lr' is there twice");
  const auto json = JobFile::parse("{\"name\": }", "tiny.json", "/jobs", {});
  EXPECT_EQ(json.error().message.find("[json"), std::string::npos) << json.error().message;
  EXPECT_NE(json.error().message.find("line 1, column"), std::string::npos);
}

TEST(JobFile, DataThatIsNotAFileWithTextIsRefused) {
  const std::string folder = ::testing::TempDir() + "job_file_test_data";
  std::filesystem::create_directories(folder + "/texts/a.txt");
  const auto check = [&] { return JobFile::parse(kText, "t", folder, {})->check_data_is_here(); };
  EXPECT_EQ(check().error().remedy, "name one file");
  std::filesystem::remove(folder + "/texts/a.txt");
  std::ofstream(folder + "/texts/a.txt").flush();
  EXPECT_EQ(check().error().remedy, "put text into it, or name another file");
  std::ofstream(folder + "/texts/a.txt") << "text";
  EXPECT_TRUE(check().ok());
  std::filesystem::remove_all(folder);
}

TEST(JobFile, MissingFilesAreNamed) {
  EXPECT_EQ(JobFile::load("/no/such/job.toml", {}).error().code, Code::kNotFound);
  const auto file = parsed(kText);
  ASSERT_TRUE(file.ok());
  const Status here = file->check_data_is_here();
  ASSERT_FALSE(here.ok());
  EXPECT_NE(here.error().message.find("/jobs/texts/a.txt"), std::string::npos);
}

TEST(JobFile, DataThatTheCoordinatorHasFoundBadIsRefusedWithItsLine) {
  const auto file = parsed(kText);
  const Status refused = file->check_data(
      Json{{"data",
            {{"checked", true}, {"problem", "/x is too short: 3 tokens"}, {"remedy", "longer"}}}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kValidation);
  EXPECT_EQ(refused.error().message, "tiny.toml:4: data.train: /x is too short: 3 tokens");
  EXPECT_EQ(refused.error().remedy, "longer");
  EXPECT_TRUE(file->check_data(Json{{"data", {{"checked", true}, {"problem", nullptr}}}}).ok());
  EXPECT_TRUE(file->check_data(Json::object()).ok()) << "of an older coordinator";
}

}  // namespace
}  // namespace shoal::cli
