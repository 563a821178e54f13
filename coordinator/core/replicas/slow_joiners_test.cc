#include "coordinator/core/replicas/slow_joiners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/rounds_test_util.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

using testing::AllOf;
using testing::HasSubstr;

JobSpec of_many_rounds() {
  JobSpec spec = small_job();
  spec.train.steps = Steps(100'000);
  spec.checkpoint.every_rounds = spec.eval.every_rounds = 0;
  return spec;
}

// Two that train, in rounds of 5 s, and a third one that loads 1000 bytes over a line of 10 bytes a
// second, which is always full.
class SlowJoiners : public testing::Test {
 protected:
  SlowJoiners() {
    go_through_round();
    late_ = rig_.join("late");
    rig_.wait(seconds(1));
    replica_ = rig_.last<Assign>(late_).value_or(Assign{}).replica;
  }
  void go_through_round() {
    rig_.report(rig_.a, rig_.rep_a, rig_.key(round_));
    rig_.report(rig_.b, rig_.rep_b, rig_.key(round_));
    rig_.finish(round_++);
  }
  // `done(second)`: what it has.
  template <typename Done>
  void load(int seconds_, std::int64_t per_round, const Done& done) {
    for (int second = 0; second < seconds_; ++second, received_ += 10) {
      rig_.wait(seconds(1));
      for (const ConnectionId agent : {rig_.a, rig_.b, late_}) rig_.say(agent, Heartbeat{});
      if (second % 5 == 4) go_through_round();
      rig_.say(late_, LoadProgress{replica_, Bytes(done(second)), Bytes(1000), Bytes(received_),
                                   Bytes(per_round)});
    }
  }
  std::vector<std::string> said(const char* kind) const {
    std::vector<std::string> messages;
    for (const EventRecord& event : rig_.events) {
      if (event.kind == kind) messages.push_back(event.message);
    }
    return messages;
  }
  bool is_loading() const { return is_live(rig_.state(), replica_); }
  // What the agent was told to load since.
  ReplicaId told() { return rig_.last<Assign>(late_)->replica; }

  PairRig rig_{of_many_rounds()};
  ConnectionId late_;
  ReplicaId replica_;
  RoundNumber round_ = 1;
  std::int64_t received_ = 0;
};

TEST_F(SlowJoiners, OneWithRoomOnItsLineIsLeftAlone) {
  load(60, 10, [](int second) { return 8 * second; });
  EXPECT_TRUE(is_loading());
  EXPECT_THAT(said("join_slow"), testing::IsEmpty());
}

TEST_F(SlowJoiners, OneThatLosesMoreThanAThirdIsNamedOnceWithTheRemedy) {
  load(60, 25, [](int second) { return 5 * second; });
  EXPECT_TRUE(is_loading());
  ASSERT_EQ(said("join_slow").size(), 1u);
  EXPECT_THAT(said("join_slow")[0], AllOf(HasSubstr("of late"), HasSubstr("r = 0."),
                                          HasSubstr("more"), HasSubstr("sync.codec")));
}

TEST_F(SlowJoiners, OneThatWouldNeverHoldTheStateIsReleasedAndNamed) {
  load(60, 70, [](int) { return 300; });
  EXPECT_FALSE(is_loading());
  EXPECT_EQ(rig_.replicas_.at(replica_).failure, ReplicaFailure::kTooSlow);
  ASSERT_EQ(said("join_refused").size(), 1u);
  EXPECT_THAT(said("join_refused")[0], AllOf(HasSubstr("of late"), HasSubstr("r = 1.4"),
                                             HasSubstr("sync.fragments"), HasSubstr("in 60 s")));
  EXPECT_EQ(rig_.job(rig_.id).failures_in_row, 0);
  EXPECT_EQ(rig_.job(rig_.id).phase, JobPhase::kTraining);
}

TEST_F(SlowJoiners, OneSampleRefusesNobody) {
  load(25, 70, [](int) { return 300; });
  EXPECT_TRUE(is_loading());
}

TEST_F(SlowJoiners, TheAgentIsAskedAgainLaterAndLaterEachTime) {
  load(45, 70, [](int) { return 300; });
  ASSERT_FALSE(is_loading());
  EXPECT_EQ(told(), replica_) << "not at once";
  load(60, 70, [](int) { return 300; });
  ASSERT_NE(told(), replica_);
  replica_ = told();
  load(70, 70, [](int) { return 300; });
  ASSERT_EQ(said("join_refused").size(), 2u);
  EXPECT_THAT(said("join_refused")[1], HasSubstr("in 2 min"));
}

// It says a little more and a little less forever, over a line that is fast enough.
TEST_F(SlowJoiners, OneThatComesNoFurtherIsReplacedAndNamed) {
  load(700, 10, [](int second) { return 300 + second % 2; });
  ASSERT_FALSE(is_loading());
  ASSERT_EQ(said("join_refused").size(), 1u);
  EXPECT_THAT(said("join_refused")[0], HasSubstr("stayed at 301 B of 1.00 kB"));
}

TEST_F(SlowJoiners, WhereNoRoundsGoOnNobodyIsTooSlow) {
  load(45, 70, [](int) { return 300; });
  ASSERT_FALSE(is_loading());
  rig_.say(rig_.a, ReplicaFailed{rig_.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig_.input(AgentHungUp{rig_.a});
  for (int second = 0; second < 12; ++second) {
    rig_.wait(seconds(1));
    rig_.say(rig_.b, Heartbeat{}), rig_.say(late_, Heartbeat{});
  }
  ASSERT_EQ(rig_.job(rig_.id).phase, JobPhase::kStalled);
  EXPECT_NE(told(), replica_);
}

}  // namespace
}  // namespace shoal::coordinator
