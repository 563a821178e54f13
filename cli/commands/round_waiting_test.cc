#include "cli/commands/round_waiting.h"

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

Json member(int replica, const char* state, Json wait_s = nullptr) {
  return {{"replica", "rep_" + std::to_string(replica)},
          {"agent", "agt_" + std::to_string(replica)},
          {"state", state},
          {"phases", {{"wait_s", std::move(wait_s)}}}};
}

Json round_of(const char* state, std::vector<Json> members) {
  Json round = {{"round", 3}, {"state", state}, {"from_step", 100}, {"to_step", 150}};
  round["contributions"] = std::move(members);
  return round;
}

Json agent(int id, const char* name, const char* health = "green", const char* state = "active") {
  return {
      {"id", "agt_" + std::to_string(id)}, {"name", name}, {"health", health}, {"state", state}};
}

Json replica(int id, int round, int step) {
  return {{"id", "rep_" + std::to_string(id)}, {"live", {{"round", round}, {"inner_step", step}}}};
}

TEST(RoundWaiting, AnOpenRoundNamesThoseThatTrainWithTheirSteps) {
  const Json round =
      round_of("open", {member(1, "reported"), member(2, "training"), member(3, "training")});
  const RoundContext context{{agent(1, "one"), agent(2, "two"), agent(3, "three")},
                             {replica(1, 3, 150), replica(2, 3, 118), replica(3, 2, 100)}};
  EXPECT_EQ(waiting_line(round, context),
            "waits for rep_2 of two (step 18 of 50), rep_3 of three (trains)\n");
}

TEST(RoundWaiting, WhoIsNotHeardFromIsSaidToBe) {
  const Json round = round_of("open", {member(1, "training"), member(2, "training")});
  const RoundContext context{{agent(1, "one", "red"), agent(2, "two", "red", "gone")},
                             Json::array()};
  EXPECT_EQ(waiting_line(round, context),
            "waits for rep_1 of one (trains, not heard from), rep_2 of two (trains, gone)\n");
}

TEST(RoundWaiting, SlowAgent_IsNotCalledSilent) {
  Json slow = agent(1, "one", "yellow");
  slow["slow_replicas"] = 1;
  const RoundContext context{{slow}, Json::array()};
  EXPECT_EQ(waiting_line(round_of("open", {member(1, "training")}), context),
            "waits for rep_1 of one (trains, slow)\n");
}

TEST(RoundWaiting, AgentWithADeviceInTrouble_IsNotCalledSilent) {
  Json troubled = agent(1, "one", "yellow"), late = agent(2, "two", "yellow");
  troubled["late"] = false;
  late["late"] = true;
  late["slow_replicas"] = 1;
  const RoundContext context{{troubled, late}, Json::array()};
  EXPECT_EQ(waiting_line(round_of("open", {member(1, "training"), member(2, "training")}), context),
            "waits for rep_1 of one (trains), rep_2 of two (trains, not heard from)\n");
}

TEST(RoundWaiting, AfterTheFreezeItWaitsForAveragesAndVotes) {
  EXPECT_EQ(waiting_line(round_of("reducing", {member(1, "voted"), member(2, "member")}), {}),
            "waits for rep_2 of agt_2 (averages)\n");
  EXPECT_EQ(waiting_line(round_of("voting", {member(1, "voted"), member(2, "member")}), {}),
            "waits for rep_2 of agt_2 (has not voted)\n");
}

TEST(RoundWaiting, ACommittedRoundSaysWhoReportedLast) {
  const RoundContext context{{agent(1, "one"), agent(2, "two")}, Json::array()};
  EXPECT_EQ(waiting_line(
                round_of("committed", {member(1, "committed", 12.0), member(2, "committed", 0.0)}),
                context),
            "two reported last, 12 s after one\n");
  EXPECT_EQ(waiting_line(round_of("committed", {member(1, "committed", 12.0),
                                                member(2, "committed", 8.0), member(3, "lost")}),
                         context),
            "two reported last, 4.0 s after one; the round waited 8.0 s more for the others\n");
}

TEST(RoundWaiting, WhoCameAfterTheFreezeWasNotWaitedFor) {
  EXPECT_EQ(
      waiting_line(round_of("committed", {member(1, "committed", 5.0), member(2, "committed", 0.0),
                                          member(3, "late", -3.0)}),
                   {}),
      "agt_2 reported last, 5.0 s after agt_1\n");
}

TEST(RoundWaiting, OneMemberWaitsForNobody) {
  EXPECT_EQ(waiting_line(round_of("committed", {member(1, "committed", 0.0)}), {}), "");
  EXPECT_EQ(waiting_line(round_of("aborted", {member(1, "lost")}), {}), "");
}

}  // namespace
}  // namespace shoal::cli
