#include "coordinator/service/message_budget.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using std::chrono::milliseconds;

struct Budget : testing::Test {
  // How many of the messages that come every half millisecond are taken at once.
  int taken(int milliseconds_long) {
    int count = 0;
    for (int i = 0; i < 2 * milliseconds_long; ++i) {
      now += std::chrono::microseconds(500);
      count += budget.take(now);
    }
    return count;
  }
  MessageBudget::Clock::time_point now{};
  MessageBudget budget{now};
};

TEST_F(Budget, ABurstIsTakenAndThenTheRate) {
  EXPECT_EQ(taken(250), 500);
  EXPECT_NEAR(taken(4000), 1000 + 62, 3) << "what was refilled during the burst, too";
}

TEST_F(Budget, EachReplicaAddsAsMuch) {
  taken(4000);
  budget.allow(3);
  EXPECT_NEAR(taken(1000), 1000, 3);
}

TEST_F(Budget, IsFullAfterAPause) {
  EXPECT_TRUE(budget.is_full(now));
  taken(1000);
  EXPECT_FALSE(budget.is_full(now));
  EXPECT_FALSE(budget.is_full(now + milliseconds(1500)));
  EXPECT_TRUE(budget.is_full(now + milliseconds(2100)));
}

}  // namespace
}  // namespace shoal::coordinator
