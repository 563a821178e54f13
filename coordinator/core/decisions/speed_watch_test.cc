#include "coordinator/core/decisions/speed_watch.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

class SpeedWatchTest : public testing::Test {
 protected:
  // A word after each `every` of work, until the state turns or the time is over.
  SpeedTurn work(Duration time, double pace, double promised = 0, Duration every = seconds(1)) {
    for (took_ = {}; took_ < time;) {
      took_ = took_ + every;
      const SpeedTurn turn = watch_.worked(every, pace, promised);
      if (turn != SpeedTurn::kNone) return turn;
    }
    return SpeedTurn::kNone;
  }

  SpeedWatch watch_;
  Duration took_;  // the last call of work()
};

TEST_F(SpeedWatchTest, ReplicaAtATenthOfItsBest_IsSlowWithinAMinute) {
  EXPECT_EQ(work(seconds(60), 100), SpeedTurn::kNone);
  EXPECT_EQ(work(seconds(60), 10), SpeedTurn::kSlow);
  EXPECT_GE(took_, SpeedWatch::kSlowAfter);
  EXPECT_LT(took_, seconds(45));
  EXPECT_TRUE(watch_.is_slow());
  EXPECT_DOUBLE_EQ(watch_.expected(), 100);
  EXPECT_NEAR(watch_.ratio(), 0.1, 0.02);
}

TEST_F(SpeedWatchTest, ReplicaThatIsSlowFromItsStart_IsFoundByThePromise) {
  EXPECT_EQ(work(seconds(60), 10), SpeedTurn::kNone) << "it is its own best";
  EXPECT_EQ(work(seconds(60), 10, 100), SpeedTurn::kSlow);
}

TEST_F(SpeedWatchTest, ReplicaThatSharesItsDevice_IsSlowWhenTheOthersDoNotExplainIt) {
  work(seconds(60), 100);
  watch_.share_with(2);
  EXPECT_EQ(work(seconds(120), 50), SpeedTurn::kNone) << "the other one works now";
  EXPECT_EQ(work(seconds(120), 20), SpeedTurn::kNone) << "a little less than a half of it";
  EXPECT_EQ(work(seconds(120), 5), SpeedTurn::kSlow) << "a tenth";
  EXPECT_EQ(work(seconds(120), 50), SpeedTurn::kAsPromised);
}

TEST_F(SpeedWatchTest, ReplicaAtSixTenths_IsNotSlow) {
  work(seconds(60), 100);
  EXPECT_EQ(work(seconds(600), 60), SpeedTurn::kNone);
  EXPECT_FALSE(watch_.is_sound());
}

TEST_F(SpeedWatchTest, ShortDip_IsIgnored) {
  work(seconds(60), 100);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(work(seconds(15), 10), SpeedTurn::kNone);
    EXPECT_EQ(work(seconds(20), 100), SpeedTurn::kNone);
  }
}

TEST_F(SpeedWatchTest, SlowReplica_IsAsPromisedOnlyAboveSevenTenths) {
  work(seconds(60), 100);
  ASSERT_EQ(work(seconds(60), 10), SpeedTurn::kSlow);
  EXPECT_EQ(work(seconds(300), 60), SpeedTurn::kNone);
  EXPECT_TRUE(watch_.is_slow());
  EXPECT_EQ(work(seconds(60), 90), SpeedTurn::kAsPromised);
  EXPECT_FALSE(watch_.is_slow());
}

// One word in 20 s, because a step takes that long.
TEST_F(SpeedWatchTest, RareWords_AreEnough) {
  work(seconds(60), 100);
  EXPECT_EQ(work(seconds(120), 5, 0, seconds(20)), SpeedTurn::kSlow);
  EXPECT_LE(took_, seconds(60));
}

TEST_F(SpeedWatchTest, FirstWords_AreNotItsBest) {
  work(seconds(2), 1000);
  work(seconds(60), 100);
  EXPECT_FALSE(watch_.is_slow()) << watch_.best();
}

TEST_F(SpeedWatchTest, UselessNumbers_AreIgnored) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const double pace : {0.0, -1.0, std::nan(""), kInfinite}) {
    EXPECT_EQ(work(seconds(60), pace, 100), SpeedTurn::kNone);
  }
  EXPECT_EQ(watch_.ratio(), 0);
  work(seconds(60), 100, std::nan(""));
  EXPECT_DOUBLE_EQ(watch_.ratio(), 1);
}

}  // namespace
}  // namespace shoal::coordinator
