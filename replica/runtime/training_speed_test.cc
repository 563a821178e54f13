#include "replica/runtime/training_speed.h"

#include <gtest/gtest.h>

namespace shoal::replica {
namespace {

using std::chrono::milliseconds;

class TrainingSpeedTest : public testing::Test {
 protected:
  void pass(int ms) { now_ += milliseconds(ms); }

  TrainingSpeed speed_;
  TrainingSpeed::Time now_{std::chrono::hours(1)};
};

TEST_F(TrainingSpeedTest, IsTokensOverTime) {
  speed_.go_on(now_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(speed_.due(now_));
    pass(500);
    speed_.trained(Tokens(100));
  }
  EXPECT_TRUE(speed_.due(now_));
  EXPECT_DOUBLE_EQ(speed_.read(now_), 200);
  EXPECT_FALSE(speed_.due(now_)) << "everything was read";
}

TEST_F(TrainingSpeedTest, EachReadingIsOfWhatCameSinceTheLast) {
  speed_.go_on(now_);
  pass(1000);
  speed_.trained(Tokens(100));
  EXPECT_DOUBLE_EQ(speed_.read(now_), 100);
  pass(2000);
  EXPECT_FALSE(speed_.due(now_)) << "no further tokens";
  speed_.trained(Tokens(500));
  EXPECT_DOUBLE_EQ(speed_.read(now_), 250);
}

// A step of three seconds is not the work of the last one.
TEST_F(TrainingSpeedTest, LongStepsAreSpreadOverTheirTime) {
  speed_.go_on(now_);
  pass(2000);
  EXPECT_FALSE(speed_.due(now_)) << "nothing came of it yet";
  pass(1000);
  speed_.trained(Tokens(300));
  EXPECT_DOUBLE_EQ(speed_.read(now_), 100);
}

// What is left over when a round ends counts with the beginning of the next, at the same speed.
TEST_F(TrainingSpeedTest, ABoundaryChangesNothing) {
  speed_.go_on(now_);
  pass(600);
  speed_.trained(Tokens(60));
  speed_.pause(now_);
  pass(5000);  // averaging, the commit, an evaluation
  EXPECT_FALSE(speed_.due(now_));
  speed_.go_on(now_);
  pass(400);
  speed_.trained(Tokens(40));
  EXPECT_DOUBLE_EQ(speed_.read(now_), 100);
}

TEST_F(TrainingSpeedTest, PausingTwiceOrGoingOnTwiceIsOnce) {
  EXPECT_FALSE(speed_.pause(now_));
  speed_.go_on(now_);
  pass(1000);
  speed_.go_on(now_);
  pass(1000);
  EXPECT_TRUE(speed_.pause(now_));
  EXPECT_FALSE(speed_.pause(now_));
  speed_.trained(Tokens(10));
  EXPECT_DOUBLE_EQ(speed_.read(now_), 5);
}

}  // namespace
}  // namespace shoal::replica
