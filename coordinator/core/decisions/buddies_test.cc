#include "coordinator/core/decisions/buddies.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr AgentId kA{1}, kB{2}, kC{3}, kD{4};
using Keepers = std::vector<AgentId>;

Keeper keeper(AgentId agent, const std::string& domain) {
  return {.agent = agent, .domain = domain, .room = mebibytes(100)};
}

// Two stages, each on an agent of its own region; a third agent stands beside the first one.
BuddiesInput two_stages() {
  BuddiesInput input;
  input.wanted = 1;
  input.agents = {keeper(kA, "east"), keeper(kB, "west"), keeper(kC, "east")};
  input.stages = {{mebibytes(10), {kA}, {}}, {mebibytes(10), {kB}, {}}};
  return input;
}

TEST(Buddies, NobodyKeepsWhatNobodyWants) {
  BuddiesInput input = two_stages();
  input.wanted = 0;
  EXPECT_EQ(decide_buddies(input).keepers, (std::vector<Keepers>{{}, {}}));
}

TEST(Buddies, AnotherDomainComesBeforeAnotherAgent) {
  const BuddiesDecision decision = decide_buddies(two_stages());
  EXPECT_EQ(decision.keepers, (std::vector<Keepers>{{kB}, {kA}}));
  EXPECT_EQ(decision.missing, (std::vector<std::int64_t>{0, 0}));
}

TEST(Buddies, WithoutAnotherDomainAnotherAgentIsBetterThanNone) {
  BuddiesInput input = two_stages();
  input.agents[1].can_keep = false;
  EXPECT_EQ(decide_buddies(input).keepers[0], Keepers{kC});
}

TEST(Buddies, WhoServesTheStageDoesNotKeepIt) {
  BuddiesInput input = two_stages();
  input.wanted = 2;
  input.stages[0].serving = {kA, kC};
  const BuddiesDecision decision = decide_buddies(input);
  EXPECT_EQ(decision.keepers[0], Keepers{kB});
  EXPECT_EQ(decision.missing[0], 1);
}

TEST(Buddies, KeepersStayWhereTheyCan) {
  BuddiesInput input = two_stages();
  input.stages[0].keeping = {kC};
  EXPECT_EQ(decide_buddies(input).keepers[0], Keepers{kC}) << "though kB is further away";
  input.stages[0].serving = {kA, kC};
  EXPECT_EQ(decide_buddies(input).keepers[0], Keepers{kB});
}

TEST(Buddies, FewerAreWantedThanKeep) {
  BuddiesInput input = two_stages();
  input.stages[0].keeping = {kB, kC};
  EXPECT_EQ(decide_buddies(input).keepers[0], Keepers{kB});
}

TEST(Buddies, KeepersOfOneStageAreApart) {
  BuddiesInput input = two_stages();
  input.agents = {keeper(kA, "east"), keeper(kB, "west"), keeper(kC, "west"), keeper(kD, "north")};
  input.wanted = 2;
  input.stages.resize(1);
  EXPECT_EQ(decide_buddies(input).keepers[0], (Keepers{kB, kD}));
}

TEST(Buddies, TheLoadIsSharedAndRoomIsALimit) {
  BuddiesInput input = two_stages();
  input.agents = {keeper(kA, "east"), keeper(kB, "west"), keeper(kC, "west")};
  input.stages = {{mebibytes(10), {kA}, {}}, {mebibytes(10), {kA}, {}}, {mebibytes(95), {kA}, {}}};
  const BuddiesDecision decision = decide_buddies(input);
  EXPECT_EQ(decision.keepers, (std::vector<Keepers>{{kB}, {kC}, {}}));
  EXPECT_EQ(decision.missing[2], 1);
}

TEST(Buddies, OfEqualsTheMoreAvailableOne) {
  BuddiesInput input = two_stages();
  input.agents = {keeper(kA, "east"), keeper(kB, "west"), keeper(kC, "west")};
  input.agents[1].availability = 0.5;
  EXPECT_EQ(decide_buddies(input).keepers[0], Keepers{kC});
}

}  // namespace
}  // namespace shoal::coordinator
