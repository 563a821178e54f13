#include "swarm/core/session/reach.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

TEST(Reach, IsCutOffAfterTheLimitAndSaysItOnce) {
  Instant now{0};
  Reach reach(seconds(10));
  EXPECT_FALSE(reach.watch(now, true));
  EXPECT_FALSE(reach.next_deadline());
  EXPECT_FALSE(reach.watch(now, false));
  EXPECT_EQ(reach.state(), ReachState::kUnreachable);
  EXPECT_EQ(reach.next_deadline(), now + seconds(10));
  EXPECT_FALSE(reach.watch(now + seconds(9), false));
  EXPECT_TRUE(reach.watch(now + seconds(10), false));
  EXPECT_TRUE(reach.cut_off());
  EXPECT_FALSE(reach.next_deadline());
  EXPECT_FALSE(reach.watch(now + seconds(11), false));
}

TEST(Reach, SomebodyWhoCanBeReachedBeginsTheTimeAnew) {
  Instant now{0};
  Reach reach(seconds(10));
  reach.watch(now, false);
  reach.watch(now + seconds(9), true);
  EXPECT_EQ(reach.state(), ReachState::kReachable);
  EXPECT_FALSE(reach.watch(now + seconds(9), false));
  EXPECT_FALSE(reach.watch(now + seconds(18), false));
  EXPECT_TRUE(reach.watch(now + seconds(19), false));
  reach.watch(now + seconds(20), true);
  EXPECT_FALSE(reach.cut_off());
}

TEST(Reach, TheTable) {
  using enum ReachState;
  EXPECT_TRUE(allowed(kReachable, kUnreachable));
  EXPECT_TRUE(allowed(kUnreachable, kCutOff));
  EXPECT_TRUE(allowed(kUnreachable, kReachable));
  EXPECT_TRUE(allowed(kCutOff, kReachable));
  EXPECT_FALSE(allowed(kReachable, kCutOff)) << "not without waiting";
  EXPECT_FALSE(allowed(kCutOff, kUnreachable));
  EXPECT_FALSE(allowed(kReachable, kReachable));
}

}  // namespace
}  // namespace shoal::swarm
