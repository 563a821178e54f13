#include "cli/commands/round_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json member(const char* replica, int stage, Json group, Json digest) {
  return {{"replica", replica},
          {"agent", "agt_" + std::string(replica)},
          {"stage", stage},
          {"group", std::move(group)},
          {"state", "committed"},
          {"reject_reason", nullptr},
          {"digest", std::move(digest)},
          {"bytes_sent", 1000}};
}

Json round_of(std::vector<Json> members) {
  Json round = {{"round", 3},   {"state", "committed"}, {"from_step", 100},        {"to_step", 150},
                {"attempt", 1}, {"aborts", 0},          {"digest", "aabbccddeeff"}};
  round["contributions"] = std::move(members);
  return round;
}

TEST(RoundTables, MembersOfAStageHoldOneAverage) {
  EXPECT_EQ(digest_cell(round_of({member("1", 0, nullptr, "aa"), member("2", 0, nullptr, "aa"),
                                  member("3", 1, nullptr, "bb")})),
            "aabbccdd");
  EXPECT_EQ(digest_cell(round_of({member("1", 0, nullptr, "aa"), member("2", 0, nullptr, "ab")})),
            "DIFFERENT");
  EXPECT_EQ(digest_cell(round_of({member("1", 0, nullptr, nullptr)})), "-");
}

TEST(RoundTables, GroupsNeedNotAgreeWithEachOther) {
  EXPECT_EQ(digest_cell(round_of({member("1", 0, 0, "aa"), member("2", 0, 1, "bb"),
                                  member("3", 0, 0, "aa"), member("4", 0, 1, "bb")})),
            "aabbccdd");
  EXPECT_EQ(digest_cell(round_of({member("1", 0, 0, "aa"), member("2", 0, 0, "bb")})), "DIFFERENT");
}

TEST(RoundTables, ARoundInGroupsShowsWhoWasWithWhom) {
  Json round = round_of({member("1", 0, 0, "aa"), member("2", 0, 1, nullptr),
                         member("3", 0, 0, "aa"), member("4", 0, 1, nullptr)});
  round["reduces"] = Json::parse(R"([{"given_up": false}, {"given_up": true}])");
  const Json agents =
      Json::parse(R"([{"id": "agt_1", "name": "one"}, {"id": "agt_3", "name": "three"}])");
  const std::string text = round_text(round, {agents, Json::array()}, false);
  EXPECT_THAT(text, HasSubstr("group 0  one, three\n"));
  EXPECT_THAT(text, HasSubstr("group 1  agt_2, agt_4  gave up"));
  EXPECT_THAT(rounds_table(Json::array({round}), false), HasSubstr("2, 1 gave up"));
}

TEST(RoundTables, WithoutGroupsThereIsNoWordOfThem) {
  const Json round = round_of({member("1", 0, nullptr, "aa")});
  EXPECT_THAT(rounds_table(Json::array({round}), false), Not(HasSubstr("GROUPS")));
  EXPECT_THAT(round_text(round, {}, false), Not(HasSubstr("group ")));
}

TEST(RoundTables, TheTopologyIsShownWithItsReason) {
  Json round = round_of({member("1", 0, nullptr, "aa"), member("2", 1, nullptr, "bb")});
  round["reduces"] = Json::parse(R"([
    {"topology": "ring", "topology_reason": "few streams"},
    {"topology": "ring", "topology_reason": "few streams"},
    {"topology": null, "topology_reason": null}])");
  EXPECT_THAT(round_text(round, {}, false), HasSubstr("\nsent by ring: few streams\n\n"));
  round["reduces"][0]["entropy_coding"] = round["reduces"][1]["entropy_coding"] = true;
  EXPECT_THAT(round_text(round, {}, false),
              HasSubstr("\nsent by ring: few streams; entropy coded\n\n"));
  round["reduces"] = Json::array();
  EXPECT_THAT(round_text(round, {}, false), Not(HasSubstr("sent by")));
}

TEST(RoundTables, AReasonIsShownInWords) {
  Json late = member("1", 0, nullptr, nullptr), odd = member("2", 0, nullptr, "aa");
  late["state"] = "late";
  odd["state"] = "rejected";
  odd["reject_reason"] = "non_finite";
  const std::string text = round_text(round_of({late, odd}), {}, false);
  EXPECT_THAT(text, HasSubstr("late "));
  EXPECT_THAT(text, HasSubstr("rejected: non finite"));
}

TEST(RoundTables, WhoWasLostIsShownWithTheReasonOfItsReplica) {
  Json lost = member("rep_1", 0, nullptr, nullptr), unknown = member("rep_2", 0, nullptr, nullptr);
  lost["state"] = "lost";
  unknown["state"] = "lost";
  const Json replicas = Json::parse(R"([{"id": "rep_1", "failure": "trainer_exited"}])");
  const std::string text = round_text(round_of({lost, unknown}), {Json::array(), replicas}, false);
  EXPECT_THAT(text, HasSubstr("lost: trainer exited"));
  EXPECT_THAT(text, HasSubstr("lost  "));
}

}  // namespace
}  // namespace shoal::cli
