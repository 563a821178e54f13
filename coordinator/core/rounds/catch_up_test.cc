// What a replica hears again whose agent was away.
#include "coordinator/core/rounds/catch_up.h"

#include <gmock/gmock.h>

#include "coordinator/core/rounds_test_util.h"
#include "coordinator/core/transaction_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(CatchUp, WhoComesBackHearsItsOwnNumberOfSteps) {
  StepPair rig(by_speed());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 2.0);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 8.0);
  rig.finish(1);
  const OpenRound told = rig.next_of(rig.b);
  rig.restart();
  const auto again = rig.join("b", rig.incarnation_of_b(), {rig.rep_b});
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(again)->body, told);
}

TEST(CatchUp, WhoMissedTheEndIsToldAgain) {
  StepPair rig(by_time());
  rig.live(22);
  ASSERT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  rig.input(AgentHungUp{rig.b});
  const auto again = rig.join("b", rig.incarnation_of_b(), {rig.rep_b});
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(again));
}

// Its commit was under way when the line broke: it may follow.
TEST(CatchUp, WhoMissedOneCommitHearsItAgain) {
  StepPair rig(job_of_steps());
  rig.report_steps(rig.a, rig.rep_a, 1, Steps(10), 1);
  rig.report_steps(rig.b, rig.rep_b, 1, Steps(10), 1);
  rig.finish(1);
  const auto incarnation = rig.incarnation_of_b();
  rig.input(AgentHungUp{rig.b});
  rig.b = rig.join("b", incarnation, {rig.rep_b});
  EXPECT_TRUE(is_live(rig.state(), rig.rep_b));
  EXPECT_TRUE(rig.last<ToReplica<OpenRound>>(rig.b)) << "the order of the round that is open";
}

// What it holds is of no use to anybody, and it cannot get at what it missed.
TEST(CatchUp, AStateOfAnotherEpochIsStale) {
  StepPair rig(job_of_steps());
  State state = rig.state();
  state.replicas.at(rig.rep_b).epoch = 7;
  Transaction tx(state, rig.now);
  catch_up(tx, rig.rep_b);
  EXPECT_FALSE(is_live(state, rig.rep_b));
  EXPECT_TRUE(is_live(state, rig.rep_a));
}

TEST(CatchUp, WhoMissedTwoCommitsIsStale) {
  StepPair rig(job_of_steps());
  State state = rig.state();
  state.jobs.at(rig.id).committed_round = 2;
  state.rounds.put(rig.key(2), {.key = rig.key(2), .state = RoundState::kCommitted});
  Transaction tx(state, rig.now);
  catch_up(tx, rig.rep_b);
  EXPECT_FALSE(is_live(state, rig.rep_b));
}

TEST(CatchUp, WhoStillLoadsIsAssignedAgain) {
  Rig rig;
  const auto a = rig.join("a");
  (void)*rig.submit(small_job());
  const ReplicaId replica = rig.last<Assign>(a)->replica;
  State state = rig.state();
  Transaction tx(state, rig.now);
  catch_up(tx, replica);
  EXPECT_EQ(messages<Assign>(effects_of(tx), a).size(), 1u);
}

}  // namespace
}  // namespace shoal::coordinator
