#include "swarm/core/session/step_barrier.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

using Kind = BarrierVerdict::Kind;
const ReplicaId kSelf(1), kOther(2);
const std::vector<ReplicaId> kRouters = {kSelf, kOther};

OpenRound round_of(RoundNumber round, std::int64_t from, std::int64_t to) {
  return {.key = {JobId(1), 0, round}, .from_step = Steps(from), .to_step = Steps(to)};
}

struct Opened {
  explicit Opened(PipelineSchedule schedule = PipelineSchedule::kFlush) : barrier(schedule, 0, 0) {
    barrier.open(round_of(1, 0, 4));
  }
  BarrierVerdict decide() const { return barrier.decide(progress, kRouters); }
  StepBarrier barrier;
  RoundProgress progress{kSelf};
};

TEST(StepBarrier, OpensTheRoundAfterTheHeldOneOnce) {
  StepBarrier barrier(PipelineSchedule::kFlush, 0, 0);
  EXPECT_FALSE(barrier.training());
  EXPECT_FALSE(barrier.is_new(round_of(2, 0, 4)));
  ASSERT_TRUE(barrier.is_new(round_of(1, 0, 4)));
  barrier.open(round_of(1, 0, 4));
  EXPECT_TRUE(barrier.training());
  EXPECT_FALSE(barrier.is_new(round_of(1, 0, 4))) << "repeated";
  EXPECT_TRUE(barrier.is_new(round_of(1, 2, 6))) << "after an abort";
  EXPECT_DEATH(barrier.open(round_of(1, 4, 3)), "ends before it begins");
}

// Aborted after the job's last step: everybody reports what it has, and once.
TEST(StepBarrier, ARoundWithoutStepsIsOverAtOnce) {
  Opened o;
  o.barrier.reach_boundary();
  const OpenRound empty = round_of(1, 4, 4);
  ASSERT_TRUE(o.barrier.is_new(empty));
  o.barrier.open(empty);
  EXPECT_EQ(o.barrier.state(), BarrierState::kStopping);
  o.barrier.reach_boundary();
  EXPECT_FALSE(o.barrier.is_new(empty));
}

TEST(StepBarrier, GoesOnWhenAllRoutersAreDoneOrSomebodyIsAhead) {
  Opened o;
  EXPECT_EQ(o.decide(), (BarrierVerdict{Kind::kStay, 0}));
  o.progress.done(0, false);
  EXPECT_EQ(o.decide().kind, Kind::kStay);
  o.progress.hear({1, 0, {{kOther, 0, false}}}, 0);
  EXPECT_EQ(o.decide(), (BarrierVerdict{Kind::kNextStep, 1}));
  o.progress.hear({1, 3, {}}, 0);
  EXPECT_EQ(o.decide(), (BarrierVerdict{Kind::kNextStep, 3}));
}

TEST(StepBarrier, TheRoundIsOverWhenAllRoutersHaveEnded) {
  Opened o;
  o.progress.done(1, true);
  o.progress.hear({1, 2, {{kOther, 1, true}}}, 0);
  EXPECT_EQ(o.decide().kind, Kind::kNextStep) << "it is in step 0 yet";
  o.barrier.enter(2);
  EXPECT_EQ(o.decide(), (BarrierVerdict{Kind::kBoundary, 2}));
  o.barrier.reach_boundary();
  EXPECT_EQ(o.barrier.state(), BarrierState::kAtRest);
}

TEST(StepBarrier, AStoppedRoundMayBeOpenedAgainAsItWas) {
  Opened o;
  o.barrier.stop();
  EXPECT_TRUE(o.barrier.training()) << "until the boundary";
  EXPECT_FALSE(o.barrier.may_compute({1, 0, kSelf, 0, PassKind::kLoss}));
  o.barrier.reach_boundary();
  EXPECT_EQ(o.barrier.state(), BarrierState::kStopped);
  EXPECT_FALSE(o.barrier.training());
  EXPECT_TRUE(o.barrier.is_new(round_of(1, 0, 4)));
  o.barrier.open(round_of(1, 0, 4));
  EXPECT_EQ(o.barrier.state(), BarrierState::kTraining);
}

TEST(StepBarrier, ClosingEndsWithTheBoundaryOrAnotherOpening) {
  Opened o;
  o.barrier.close();
  EXPECT_EQ(o.barrier.state(), BarrierState::kClosing);
  o.barrier.close();
  o.barrier.open(round_of(1, 2, 6));
  EXPECT_EQ(o.barrier.state(), BarrierState::kTraining);
  o.barrier.close();
  o.barrier.stop();
  EXPECT_EQ(o.barrier.state(), BarrierState::kStopping);
}

TEST(StepBarrier, ComputesOpenStepsOnly) {
  Opened flush, two(PipelineSchedule::kTwoBufferedWeights);
  const auto pass = [](RoundNumber round, std::int64_t step) {
    return Microbatch{round, step, kSelf, 0, PassKind::kTrain};
  };
  flush.barrier.enter(1);
  two.barrier.enter(1);
  EXPECT_TRUE(flush.barrier.is_past(pass(1, 0)));
  EXPECT_FALSE(flush.barrier.may_compute(pass(1, 0)));
  EXPECT_TRUE(flush.barrier.may_compute(pass(1, 1)));
  EXPECT_FALSE(flush.barrier.may_compute(pass(1, 2)));
  EXPECT_TRUE(two.barrier.may_compute(pass(1, 2)));
  EXPECT_FALSE(two.barrier.may_compute(pass(1, 3)));
  EXPECT_FALSE(flush.barrier.may_compute(pass(2, 1)));
  flush.barrier.commit(1, 4);
  EXPECT_TRUE(flush.barrier.is_past(pass(1, 4)));
  EXPECT_FALSE(flush.barrier.may_compute(pass(2, 0))) << "no round is open";
  flush.barrier.enter(4);
  EXPECT_TRUE(flush.barrier.may_compute({2, 4, kSelf, 0, PassKind::kLoss}));
}

TEST(StepBarrier, TheTable) {
  using enum BarrierState;
  EXPECT_FALSE(allowed(kAtRest, kClosing));
  EXPECT_FALSE(allowed(kAtRest, kStopping));
  EXPECT_FALSE(allowed(kStopping, kClosing));
  EXPECT_FALSE(allowed(kTraining, kStopped)) << "the boundary comes first";
  EXPECT_FALSE(allowed(kTraining, kTraining));
  EXPECT_TRUE(allowed(kStopped, kAtRest));
  StepBarrier barrier(PipelineSchedule::kFlush, 0, 0);
  EXPECT_DEATH(barrier.stop(), "step barrier: at_rest -> stopping");
}

}  // namespace
}  // namespace shoal::swarm
