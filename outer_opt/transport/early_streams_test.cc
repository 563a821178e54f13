// Which stream is dropped when too many wait for attempts that are not announced yet.
#include "outer_opt/transport/early_streams.h"

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

using LinkPtr = EarlyStreams::LinkPtr;

AttemptKey attempt(std::int64_t round) { return {{JobId(1), 0, round}, 1}; }

LinkPtr stream_of(std::uint64_t peer, std::int64_t round) {
  return std::make_shared<Link>(nullptr, StreamName{ReplicaId(peer), attempt(round), ""}, nullptr);
}

TEST(EarlyStreams, TheOldestGivesWayNotTheLowestRound) {
  EarlyStreams waiting({.per_peer = 2, .all = 10});
  const LinkPtr first = stream_of(1, 9), second = stream_of(1, 3), third = stream_of(1, 5);
  EXPECT_EQ(waiting.add(first), nullptr);
  EXPECT_EQ(waiting.add(second), nullptr);
  EXPECT_EQ(waiting.add(third), first);
  EXPECT_EQ(waiting.take(attempt(3)), std::vector{second});
  EXPECT_EQ(waiting.add(stream_of(1, 6)), nullptr);  // there is room again
}

TEST(EarlyStreams, APeerPushesOutItsOwnOnly) {
  EarlyStreams waiting({.per_peer = 4, .all = 6});
  const LinkPtr honest = stream_of(1, 1);
  ASSERT_EQ(waiting.add(honest), nullptr);
  for (int round = 2; round < 100; ++round) {
    const LinkPtr gone = waiting.add(stream_of(2, round));
    ASSERT_EQ(gone != nullptr, round >= 6) << round;
    if (gone) {
      ASSERT_EQ(gone->name().from, ReplicaId(2)) << round;
    }
  }
  EXPECT_EQ(waiting.size(), 5U);
  // Two that work together fill what is left, and then each other's.
  for (int round = 2; round < 100; ++round) {
    EXPECT_NE(waiting.add(stream_of(3, round)), honest);
  }
  EXPECT_EQ(waiting.size(), 6U);
  EXPECT_EQ(waiting.take(attempt(1)), std::vector{honest});
}

TEST(EarlyStreams, AmongEqualsTheOldestGivesWay) {
  EarlyStreams waiting({.per_peer = 4, .all = 2});
  const LinkPtr first = stream_of(1, 1), second = stream_of(2, 1);
  EXPECT_EQ(waiting.add(first), nullptr);
  EXPECT_EQ(waiting.add(second), nullptr);
  EXPECT_EQ(waiting.add(stream_of(3, 1)), first);
}

TEST(EarlyStreams, WhatIsOverMakesRoom) {
  EarlyStreams waiting({.per_peer = 1, .all = 1});
  const LinkPtr over = stream_of(1, 1);
  EXPECT_EQ(waiting.add(over), nullptr);
  waiting.forget(*over);
  waiting.forget(*over);  // nothing more happens
  EXPECT_EQ(waiting.size(), 0U);
  EXPECT_EQ(waiting.add(stream_of(1, 2)), nullptr);
}

}  // namespace
}  // namespace shoal::outer_opt
