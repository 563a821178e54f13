// Which coordinator is meant and with which token, by flags, environment and kept contexts; and the
// file in which those are kept.
#include "cli/contexts.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "identity/private_file.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const SavedContext kTeam{"team", "https://shoal.example:7070", "secret-a", "", "/ca.pem"};
const SavedContext kUp{"up", "http://127.0.0.1:7070", "secret-b", "", ""};

class ContextsTest : public ::testing::Test {
 protected:
  ContextsTest() {
    std::string name = (fs::temp_directory_path() / "shoal-contexts-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~ContextsTest() override { fs::remove_all(folder_); }
  std::string file() const { return folder_ + "/shoal/config.toml"; }

  std::string folder_;
};

TEST_F(ContextsTest, AreKeptForTheirOwnerOnly) {
  EXPECT_TRUE(load_contexts(file())->all.empty());
  ASSERT_TRUE(change_contexts(file(), [](Contexts& contexts) {
                contexts.put(kTeam);
                contexts.put(kUp);
                contexts.current = "team";
              }).ok());
  const auto loaded = load_contexts(file());
  ASSERT_TRUE(loaded.ok()) << to_string(loaded.error());
  EXPECT_EQ(loaded->current, "team");
  EXPECT_EQ(loaded->all.size(), 2u);
  EXPECT_EQ(*loaded->find("team"), kTeam);
  EXPECT_EQ(*loaded->at(kUp.addr), kUp);
  EXPECT_EQ(fs::status(file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(ContextsTest, TheClusterOfUpTakesItsAddressOver) {
  const SavedContext old{"127.0.0.1", kUp.addr, "secret of a cluster that is gone", "", ""};
  Contexts contexts{old.name, {kTeam, old}};
  contexts.put_first(kUp);
  EXPECT_EQ(*contexts.at(kUp.addr), kUp);
  EXPECT_NE(contexts.find(old.name), nullptr) << "it can be chosen again";
  Contexts chosen{kTeam.name, {kTeam, old}};
  chosen.put_first(kUp);
  EXPECT_EQ(chosen.current, kTeam.name) << "of another address";
  Contexts alone{"", {kTeam}};
  alone.put_first(kUp);
  EXPECT_EQ(alone.current, "");
}

TEST_F(ContextsTest, AFileThatOthersCanReadIsRefusedWithTheRemedy) {
  ASSERT_TRUE(change_contexts(file(), [](Contexts& contexts) { contexts.put(kUp); }).ok());
  fs::permissions(file(), fs::perms::others_read, fs::perm_options::add);
  const auto refused = load_contexts(file());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().remedy, HasSubstr("chmod 600"));
  EXPECT_FALSE(change_contexts(file(), [](Contexts&) {}).ok());
}

TEST_F(ContextsTest, ABrokenFileIsNamedWithItsLine) {
  const auto broken = parse_contexts("current = \"a\"\n[contexts.a\n", "config.toml");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().field, "config.toml");
  EXPECT_THAT(broken.error().message, HasSubstr("line 2"));
}

TEST(Contexts, AreReplacedAndRemovedByName) {
  Contexts contexts{"up", {kTeam, kUp}};
  contexts.put({.name = "up", .addr = "http://127.0.0.1:1"});
  EXPECT_EQ(contexts.all.size(), 2u);
  EXPECT_TRUE(contexts.remove("up"));
  EXPECT_EQ(contexts.current, "");
  EXPECT_FALSE(contexts.remove("up"));
  EXPECT_EQ(contexts.at("http://127.0.0.1:1"), nullptr);
}

TEST(Contexts, AnyTextSurvivesTheFile) {
  const Contexts odd{"a", {{"a", "http://h:1", "\"quoted\"\\", "/a b/\xC3\xBC", "/c\td"}}};
  const auto read = parse_contexts(to_toml(odd), "x");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->all, odd.all);
  EXPECT_TRUE(check_context_name("team-1.x_y").ok());
  for (const std::string& bad : {std::string(), std::string("a b"), std::string(65, 'x')})
    EXPECT_FALSE(check_context_name(bad).ok()) << bad;
}

TEST(Choice, WithoutAnythingItIsTheDefault) {
  const Chosen chosen = choose({}, {});
  EXPECT_EQ(chosen.addr, kDefaultAddress);
  EXPECT_EQ(chosen.credentials.token, "");
  EXPECT_TRUE(chosen.credentials.problem.ok());
}

TEST(Choice, AnAddressHasTheTokenOfItsContext) {
  const Contexts contexts{"team", {kTeam, kUp}};
  EXPECT_EQ(choose(contexts, {}).addr, kTeam.addr);
  EXPECT_EQ(choose(contexts, {}).credentials.token, "secret-a");
  EXPECT_EQ(choose(contexts, {}).credentials.ca, "/ca.pem");
  EXPECT_EQ(choose(contexts, {.addr = "127.0.0.1:7070"}).credentials.token, "secret-b");
  EXPECT_EQ(choose(contexts, {.addr = ":7070"}).credentials.ca, "");
  EXPECT_EQ(choose(contexts, {.addr = "http://other:7070"}).credentials.token, "")
      << "a token goes to no other coordinator";
  EXPECT_EQ(choose({"", {kTeam, kUp}}, {}).credentials.token, "secret-b") << "of the default";
}

TEST(Choice, WhatIsWantedGoesFirst) {
  const Contexts contexts{"team", {kTeam}};
  const Chosen chosen = choose(contexts, {.token = "mine", .ca = "/other.pem"});
  EXPECT_EQ(chosen.credentials.token, "mine");
  EXPECT_EQ(chosen.credentials.ca, "/other.pem");
}

TEST(Choice, AContextThatIsGoneIsSaid) {
  const Chosen chosen = choose({"gone", {kUp}}, {});
  EXPECT_EQ(chosen.credentials.problem.error().code, Code::kNotFound);
  EXPECT_TRUE(choose({"gone", {kUp}}, {.addr = ":7070"}).credentials.problem.ok());
}

TEST_F(ContextsTest, ATokenFileIsReadAndOneThatOthersCanReadRefused) {
  const std::string token = folder_ + "/token";
  ASSERT_TRUE(identity::write_private_file(token, "secret-c\n").ok());
  EXPECT_EQ(choose({}, {.token_file = token}).credentials.token, "secret-c");
  fs::permissions(token, fs::perms::others_read, fs::perm_options::add);
  const Chosen refused = choose({}, {.token_file = token});
  EXPECT_THAT(refused.credentials.problem.error().remedy, HasSubstr("chmod 600"));
  EXPECT_EQ(Api(refused.addr, {}, refused.credentials).get("/jobs").error().field, token);
}

}  // namespace
}  // namespace shoal::cli
