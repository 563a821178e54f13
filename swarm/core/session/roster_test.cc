#include "swarm/core/session/roster.h"

#include <gtest/gtest.h>

#include "swarm/core/session/stage_session_test_util.h"

namespace shoal::swarm {
namespace {

Roster seen_by(std::uint64_t self, const PipelineView& view) {
  return Roster(view, {.self = id(self), .stage = static_cast<StageIndex>(self / 10), .stages = 3});
}

TEST(Roster, CountsWhoStandsWhere) {
  PipelineView view = full_view(5);
  view.members.push_back({id(23), 2, "", 0});
  const Roster roster = seen_by(11, view);
  EXPECT_EQ(roster.number, 5);
  EXPECT_TRUE(roster.in_view);
  EXPECT_EQ(roster.members, 7);
  EXPECT_EQ(roster.before, 2);
  EXPECT_EQ(roster.senders, 2);
  EXPECT_EQ(roster.next, 3);
  EXPECT_TRUE(roster.names_router(id(2)));
  EXPECT_FALSE(roster.names_router(id(11)));
  EXPECT_FALSE(seen_by(13, view).in_view);
}

TEST(Roster, NeighborsAreTheStagesBesideAndAmongRoutersTheOthers) {
  const Roster middle = seen_by(11, full_view());
  for (const std::uint64_t n : {1, 2, 21, 22}) EXPECT_TRUE(middle.names_neighbor(id(n)));
  EXPECT_FALSE(middle.names_neighbor(id(12)));
  const Roster router = seen_by(1, full_view());
  for (const std::uint64_t n : {2, 11, 12}) EXPECT_TRUE(router.names_neighbor(id(n)));
  for (const std::uint64_t n : {1, 21}) EXPECT_FALSE(router.names_neighbor(id(n)));
}

TEST(Roster, SharesFollowSpeedsWhereAllAreKnown) {
  PipelineView view = full_view();
  view.members[0].speed = 3;
  EXPECT_EQ(seen_by(1, view).router_share, 0) << "the other router's is not known";
  view.members[1].speed = 1;
  EXPECT_EQ(seen_by(1, view).router_share, .75);
  EXPECT_EQ(seen_by(2, view).router_share, .25);
  EXPECT_EQ(seen_by(1, view).next_speed, 0);
  view.members[2].speed = view.members[3].speed = 2;
  EXPECT_EQ(seen_by(1, view).next_speed, 4);
}

}  // namespace
}  // namespace shoal::swarm
