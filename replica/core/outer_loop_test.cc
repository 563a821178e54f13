// A replica over whole rounds, with a partner that contributes what the test says. lr 1 and
// momentum 0 unless a test says otherwise, so that the new anchor is the mean of the locals.
#include "replica/core/outer_loop.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "outer_opt/core/step/fragments.h"
#include "replica/core/replica_test_util.h"

namespace shoal::replica {
namespace {

using outer_opt::CommitOutcome;
using testing::ElementsAre;

class OuterLoopTest : public testing::Test {
 protected:
  OuterLoopTest() {
    spec_ = default_spec(SyncAlgorithm::kDiloco);
    change_sync(spec_, [](SyncSpec& sync) {
      sync.outer = {1, 0};
      sync.codec = CodecKind::kFp32;
    });
  }

  void start(std::vector<outer_opt::Fragment> fragments = {{{0, 2}}}) {
    OuterLoopSetup setup{ReplicaId(1), spec_, std::move(fragments),
                         make_outer_algorithm(spec_, {{0, 2, true}}),
                         std::make_unique<HostVectors>(2)};
    auto state = std::make_shared<OuterState>(setup.algorithm->zero_state(2));
    state->anchor = {10, 20};
    loop_ = std::make_unique<OuterLoop>(std::move(setup), local_, std::move(state), key_of(0));
  }

  RoundReport report(std::int32_t fragment = 0, bool goes_on = false) {
    loop_->open(open_of(loop_->held().round + 1, fragment));
    RoundReport report;
    report.tokens = Tokens(100);
    loop_->boundary(report, goes_on);
    return report;
  }

  // The mean of this replica's input and the partner's becomes the average.
  OuterLoop::Attempt reduce(const std::vector<float>& partner, bool contributes = true,
                            std::int32_t fragment = 0) {
    ReducePlan plan = plan_of(loop_->held().round + 1,
                              outer_opt::value_count(loop_->values_of(fragment)), fragment);
    if (partner.empty()) plan.members.resize(1);
    OuterLoop::Attempt attempt = loop_->plan(plan, contributes);
    if (!attempt.mismatch.empty() || attempt.alone) return attempt;
    const outer_opt::ReduceInput own = loop_->input(plan, contributes);
    const std::span<float> average = loop_->average(plan);
    const std::vector<float> mine = own.pseudo_gradient.copy();
    for (std::size_t i = 0; i < average.size(); ++i) {
      average[i] = contributes ? (mine[i] + partner[i]) / 2 : partner[i];
    }
    loop_->reduced();
    return attempt;
  }

  // As memory that fails does.
  void change_anchor(float first) { const_cast<OuterState&>(loop_->state()).anchor[0] = first; }

  OuterLoop::Committed commit(bool goes_on = false, double lr = 1) {
    CommitRound commit = commit_of(loop_->held().round + 1, lr);
    commit.average = digest_of(std::span<const float>(loop_->vectors().average_memory()));
    return loop_->commit(commit, goes_on);
  }

  // The first round of an eager replica: it knows no average yet, and comes to the anchor 9, 20.
  void adopt_first_eagerly() {
    change_sync(spec_, [](SyncSpec& sync) {
      sync.overlap_steps = Steps(2);
      sync.eager = true;
    });
    start();
    local_.values = {8, 20};
    report(0, true);
    EXPECT_THAT(local_.values, ElementsAre(8, 20)) << "it begins where it stands";
    reduce({0, 0});
    commit(true);
    loop_->adopt();
    EXPECT_THAT(local_.values, ElementsAre(9, 20));
  }

  JobSpec spec_;
  VectorParameters local_{{10, 20}};
  std::unique_ptr<OuterLoop> loop_;
};

TEST_F(OuterLoopTest, ARoundAveragesAndAdopts) {
  start();
  local_.values = {8, 24};
  const RoundReport said = report();
  EXPECT_EQ(said.max_abs, 4);
  reduce({0, 0});
  const Digest before = loop_->digests().anchor;
  const auto committed = commit();
  EXPECT_EQ(committed.outcome, CommitOutcome::kCounted);
  EXPECT_EQ(committed.applied.base, before);
  EXPECT_EQ(committed.applied.anchor, loop_->digests().anchor);
  EXPECT_THAT(loop_->state().anchor, ElementsAre(9, 22));
  EXPECT_EQ(local_.values, loop_->state().anchor);
  EXPECT_EQ(loop_->held(), key_of(1));
}

TEST_F(OuterLoopTest, WithoutAPartItDropsWhatItTrained) {
  start();
  local_.values = {0, 0};
  reduce({2, 2}, false);
  EXPECT_EQ(commit().outcome, CommitOutcome::kDropped);
  EXPECT_THAT(local_.values, ElementsAre(8, 18));
}

TEST_F(OuterLoopTest, ALateReplicaMovesWithTheAnchor) {
  change_sync(spec_, [](SyncSpec& sync) { sync.algorithm = SyncAlgorithm::kAsync; });
  start();
  local_.values = {7, 20};
  reduce({2, 4}, false);
  CommitRound told = commit_of(1, 1);
  told.keeps = true;
  EXPECT_EQ(loop_->commit(told, false).outcome, CommitOutcome::kKept);
  EXPECT_THAT(loop_->state().anchor, ElementsAre(8, 16));
  EXPECT_THAT(local_.values, ElementsAre(5, 16)) << "still 3 and 0 away from it";
}

TEST_F(OuterLoopTest, WhoeverReadsTheStateKeepsTheOldOne) {
  start();
  const auto read = loop_->shared_state();
  report();
  reduce({4, 4});
  commit();
  EXPECT_THAT(read->anchor, ElementsAre(10, 20));
  EXPECT_THAT(loop_->state().anchor, ElementsAre(8, 18));
}

TEST_F(OuterLoopTest, MemoryThatChangedIsProved) {
  start();
  report();
  reduce({4, 4});
  change_anchor(11);
  loop_->vectors().average_memory()[1] += 1;
  EXPECT_FALSE(loop_->memory_is_intact());
  CommitRound told = commit_of(1, 1);
  const auto applied = loop_->commit(told, false).applied;
  EXPECT_NE(applied.average, told.average);
  EXPECT_EQ(applied.base, digest_of(std::span<const float>(std::vector<float>{11, 20})));
  EXPECT_TRUE(loop_->memory_is_intact()) << "of what the step made of it";
}

TEST_F(OuterLoopTest, TheBaseThatWasReadBesideTheReduceIsThatOfItsAttempt) {
  start();
  local_.values = {8, 18};
  report();
  reduce({2, 2});
  loop_->read_base();
  change_anchor(11);
  const Applied applied = commit().applied;
  EXPECT_EQ(applied.base, digest_of(std::span<const float>(std::vector<float>{10, 20})));
  EXPECT_EQ(applied.anchor, digest_of(std::span<const float>(std::vector<float>{9, 18})))
      << "what changed after it was read shows in what the step made of it";

  local_.values = {8, 17};
  report();
  reduce({1, 1});
  loop_->read_base();
  change_anchor(12);
  reduce({1, 1});  // the next attempt
  EXPECT_EQ(commit().applied.base, digest_of(std::span<const float>(std::vector<float>{12, 18})));
}

TEST_F(OuterLoopTest, AFragmentIsAdoptedAndItsTokensAddUp) {
  change_sync(spec_, [](SyncSpec& sync) { sync.fragments = 2; });
  start({{{0, 1}}, {{1, 1}}});
  local_.values = {8, 24};
  EXPECT_EQ(report(1).tokens, Tokens(100));
  reduce({0}, true, 1);
  commit();
  EXPECT_THAT(loop_->state().anchor, ElementsAre(9, 20));
  EXPECT_THAT(local_.values, ElementsAre(9, 24)) << "the other fragment stays local";
  EXPECT_EQ(report(2).tokens, Tokens(200));
  EXPECT_EQ(loop_->contribution()[0], -4);
}

TEST_F(OuterLoopTest, PlansThatDoNotFitAreRefused) {
  change_sync(spec_, [](SyncSpec& sync) { sync.fragments = 2; });
  start({{{0, 1}}, {{1, 1}}});
  report(1);
  EXPECT_EQ(loop_->plan(plan_of(1, 1, 2), true).mismatch, "another fragment was reported");
  EXPECT_EQ(loop_->plan(plan_of(1, 1, 3), true).mismatch, "no such fragment");
  EXPECT_NE(loop_->plan(plan_of(1, 3, 1), true).mismatch, "");
  EXPECT_EQ(loop_->plan(plan_of(1, 1, 1), true).mismatch, "");
}

TEST_F(OuterLoopTest, BehindTheBoundaryTheResultIsAdoptedLater) {
  change_sync(spec_, [](SyncSpec& sync) {
    sync.overlap_steps = Steps(2);
    sync.blend = 0.5;
  });
  start();
  local_.values = {8, 20};
  report(0, true);
  reduce({0, 0});
  local_.values = {6, 20};
  EXPECT_TRUE(commit(true).adopts_later);
  EXPECT_THAT(local_.values, ElementsAre(6, 20));
  loop_->adopt();
  EXPECT_THAT(local_.values, ElementsAre(7.5, 20));
}

// The first round knows no average; the second estimates with it: A' + w (D - D') = 1 + (4 - 2)
// / 2.
TEST_F(OuterLoopTest, AnEagerStepIsTakenAndCorrected) {
  adopt_first_eagerly();
  local_.values = {5, 20};
  report(0, true);
  EXPECT_THAT(local_.values, ElementsAre(7, 20)) << "the anchor 9 minus the estimate 2";
  reduce({6, 0});
  local_.values[0] -= 1;
  commit(true);
  loop_->adopt();
  EXPECT_THAT(local_.values, ElementsAre(3, 20)) << "the anchor 9 - 5, minus what was trained";
}

TEST_F(OuterLoopTest, AnAbortTakesTheEagerStepBack) {
  adopt_first_eagerly();
  local_.values = {5, 20};
  report(0, true);
  local_.values[0] -= 1;
  loop_->open(open_of(2));
  EXPECT_THAT(local_.values, ElementsAre(4, 20));
}

// 4,096 values a chunk, of which 64 are sent: with two values both are.
TEST_F(OuterLoopTest, WhatSparse2DidNotSendIsSettledWithTheCommit) {
  change_sync(spec_, [](SyncSpec& sync) {
    sync.codec = CodecKind::kSparse2;
    sync.topology = Topology::kAllgather;
  });
  start();
  local_.values = {8, 24};
  report();
  ReducePlan plan = plan_of(1, 2);
  plan.codec = CodecKind::kSparse2;
  loop_->plan(plan, true);
  const auto first = loop_->input(plan, true).encoded;
  const std::vector<std::byte> sent(first.begin(), first.end());
  loop_->plan(plan, true);
  const auto again = loop_->input(plan, true).encoded;
  EXPECT_TRUE(std::ranges::equal(sent, again)) << "an attempt that failed leaves no residual";
  EXPECT_TRUE(loop_->input(plan, false).encoded.empty());
}

TEST_F(OuterLoopTest, AGroupThatGaveUpKeepsOrDrops) {
  change_sync(spec_, [](SyncSpec& sync) { sync.topology = Topology::kGossip; });
  start();
  local_.values = {8, 20};
  report();
  CommitRound told = commit_of(1, 1);
  told.outcome = RoundOutcome::kKept;
  EXPECT_EQ(loop_->commit(told, false).outcome, CommitOutcome::kCounted);
  EXPECT_THAT(local_.values, ElementsAre(8, 20));
  EXPECT_THAT(loop_->state().anchor, ElementsAre(10, 20));
  told = commit_of(2, 1);
  told.outcome = RoundOutcome::kDropped;
  EXPECT_EQ(loop_->commit(told, false).outcome, CommitOutcome::kDropped);
  EXPECT_THAT(local_.values, ElementsAre(10, 20));
}

TEST_F(OuterLoopTest, AGroupsNextAttemptMakesItsInputAnew) {
  change_sync(spec_, [](SyncSpec& sync) { sync.topology = Topology::kGossip; });
  start();
  local_.values = {8, 20};
  report();
  loop_->plan(plan_of(1, 2), true);
  const auto input = loop_->input(plan_of(1, 2), true).pseudo_gradient;
  EXPECT_THAT(input.copy(), ElementsAre(8, 20));
  loop_->plan(plan_of(1, 2), true);
  const auto again = loop_->input(plan_of(1, 2), true).pseudo_gradient;
  EXPECT_THAT(again.copy(), ElementsAre(8, 20));
}

TEST_F(OuterLoopTest, AnAuditComparesItsRangesAndLeavesTheAverage) {
  start();
  local_.values = {8, 24};
  report();
  reduce({4, 0});  // average {3, -2}
  ReducePlan audit = plan_of(1, 2);
  audit.audited = {{ReplicaId(2), ReplicaId(1), 1, 1}, {ReplicaId(1), ReplicaId(2), 0, 1}};
  const auto input = loop_->audit_input(audit, true).pseudo_gradient;
  EXPECT_THAT(input.copy(), ElementsAre(-4, 2));
  std::ranges::copy(std::vector<float>{-2, 3}, loop_->audit_average().begin());
  EXPECT_TRUE(loop_->disputed(audit).empty());
  loop_->audit_average()[0] = -1;
  EXPECT_THAT(loop_->disputed(audit), ElementsAre(ReplicaId(2)));
  EXPECT_TRUE(loop_->audit_input(audit, false).pseudo_gradient.empty());
  commit();
  EXPECT_THAT(loop_->state().anchor, ElementsAre(7, 22));
}

TEST_F(OuterLoopTest, AReportTellsTheNormOfWhatSparse2Sends) {
  change_sync(spec_, [](SyncSpec& sync) {
    sync.codec = CodecKind::kSparse2;
    sync.topology = Topology::kAllgather;
  });
  start();
  local_.values = {8, 24};
  const RoundReport said = report();
  const auto encoded = loop_->input(plan_of(1, 2), true).encoded;
  double squares = 0;
  ReducePlan plan = plan_of(1, 2);
  plan.codec = CodecKind::kSparse2;
  ASSERT_TRUE(outer_opt::sparse2_squares(loop_->input(plan, true).encoded, 2, squares).ok());
  EXPECT_TRUE(encoded.empty()) << "the plan has another codec";
  EXPECT_NEAR(said.sent_norm, std::sqrt(squares), 1e-9);
  EXPECT_NEAR(said.norm, std::sqrt(20), 1e-6);
}

TEST_F(OuterLoopTest, AloneItNeedsNobody) {
  spec_ = default_spec(SyncAlgorithm::kNone);
  start();
  local_.values = {8, 24};
  report();
  const auto attempt = reduce({});
  ASSERT_TRUE(attempt.alone.has_value());
  EXPECT_EQ(*attempt.alone, digest_of(std::span<const float>(local_.values)));
  commit();
  EXPECT_EQ(loop_->state().anchor, local_.values);
}

TEST_F(OuterLoopTest, AnotherEpochBeginsOnTheAnchor) {
  start();
  local_.values = {8, 24};
  report();
  loop_->return_to_anchor({JobId(1), 5, 0});
  EXPECT_EQ(local_.values, loop_->state().anchor);
  EXPECT_EQ(loop_->held(), (RoundKey{JobId(1), 5, 0}));
  EXPECT_FALSE(loop_->contributed());
}

TEST_F(OuterLoopTest, GradientsOfAnEpochThatIsGivenUpDoNotCount) {
  spec_ = default_spec(SyncAlgorithm::kDdp);
  start();
  local_.gradient = {3, 4};
  EXPECT_EQ(report().norm, 5);
  loop_->return_to_anchor({JobId(1), 5, 0});
  EXPECT_EQ(report().norm, 0);
}

TEST_F(OuterLoopTest, ValuesThatAreNotFiniteAreReported) {
  start();
  local_.values = {std::numeric_limits<float>::quiet_NaN(), 24};
  EXPECT_EQ(report().nonfinite, 1);
}

TEST_F(OuterLoopTest, AfterValuesThatAreNotFiniteItTrainsOnFromTheAnchor) {
  start();
  local_.values = {std::numeric_limits<float>::quiet_NaN(), 18};
  ASSERT_EQ(report().nonfinite, 1);
  loop_->drop_training();
  EXPECT_THAT(local_.values, ElementsAre(10, 20));
  local_.values = {8, 18};  // trained on, after an abort
  const RoundReport again = report();
  EXPECT_EQ(again.nonfinite, 0);
  EXPECT_EQ(again.tokens, Tokens(100));
  EXPECT_NEAR(again.norm, std::sqrt(8.0), 1e-6) << "of {2, 2}";
}

}  // namespace
}  // namespace shoal::replica
