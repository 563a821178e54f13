#include "outer_opt/core/participant/router_lease.h"

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

OpenRound order(LeaseRuns leases) {
  return {{JobId(1), 0, 1}, Steps(0), Steps(10), std::move(leases), 0};
}

TEST(RouterLease, DrawsItsRunsInOrderAndRemembersWhatWasAskedFor) {
  RouterLease lease(2);
  lease.open(order({{40, 2}, {10, 4}}));
  EXPECT_EQ(lease.draw(0, 0), 40);
  EXPECT_EQ(lease.draw(0, 1), 10);
  EXPECT_EQ(lease.draw(0, 0), 40) << "sent again";
  EXPECT_EQ(lease.draw(1, 0), 12);
  EXPECT_EQ(lease.draw(1, 1), std::nullopt);
}

TEST(RouterLease, WhatWasNotAnsweredIsUnused) {
  RouterLease lease(2);
  lease.open(order({{0, 8}}));
  for (const std::int64_t index : {0, 1, 2}) lease.draw(0, index);
  lease.answered(0, 0);
  lease.answered(0, 2);
  lease.answered(0, 2);
  lease.answered(7, 7);
  EXPECT_EQ(lease.reported(), (LeaseRuns{{2, 2}, {6, 2}}));
  EXPECT_TRUE(lease.reported().empty());
}

// The coordinator has not heard of what was trained: its order has it still.
TEST(RouterLease, WhatWasTrainedIsNotDrawnAgain) {
  RouterLease lease(2);
  lease.open(order({{0, 8}}));
  lease.draw(0, 0);
  lease.draw(0, 1);
  lease.draw(1, 0);
  lease.answered(0, 0);
  lease.answered(1, 0);
  lease.open(order({{0, 8}, {20, 4}}));
  EXPECT_EQ(lease.left(), (LeaseRuns{{6, 2}, {20, 4}})) << "one is under way";
  EXPECT_EQ(lease.reported(), (LeaseRuns{{2, 2}, {6, 2}, {20, 4}}));
  lease.open(order({{0, 8}, {20, 4}}));
  EXPECT_EQ(lease.left(), (LeaseRuns{{2, 2}, {6, 2}, {20, 4}}));
  lease.committed();
  lease.open(order({{0, 2}}));
  EXPECT_EQ(lease.draw(10, 0), 0) << "given back by somebody, and leased again";
}

}  // namespace
}  // namespace shoal::outer_opt
