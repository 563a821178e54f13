// One session with schedule 2bw, driven by hand: which steps are open, what a step takes, and what
// becomes of those who are late.
#include <gtest/gtest.h>

#include "swarm/core/session/stage_session_test_util.h"

namespace shoal::swarm {
namespace {

struct ReadyForTwo : Ready {
  explicit ReadyForTwo(std::uint64_t self) : Ready(self, PipelineSchedule::kTwoBufferedWeights) {}
  void answer_all(const std::vector<SendForward>& sent) {
    for (const SendForward& one : sent) {
      answer(one);
      while (compute()) {
      }
    }
  }
};

TEST(StageSessionTwoVersions, ARouterGoesOnWhileAStepIsOut) {
  ReadyForTwo s(1);
  while (s.compute()) {
  }
  const auto sent = s.take<SendForward>();
  ASSERT_EQ(sent.size(), 6u) << "three of step 0, three of step 1, none of step 2";
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].header.microbatch,
              mb(static_cast<std::int32_t>(i % 3), static_cast<std::int64_t>(i / 3)));
  }
  s.take<SendGossip>();
  s.answer_all({sent.begin() + 3, sent.end()});
  EXPECT_TRUE(s.take<SendGossip>().empty()) << "step 0 is not done";
  s.answer_all({sent.begin(), sent.begin() + 3});
  EXPECT_EQ(s.take<SendGossip>().at(0).gossip.routers.at(0).done_through, 1) << "both are";
  EXPECT_TRUE(s.take<TakeStep>().empty());
  s.gossip(11, 0, {{id(2), 0, false}});
  const auto taken = s.take<TakeStep>();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].step, 0);
  EXPECT_EQ(taken[0].tokens, Tokens(48));
  EXPECT_FALSE(taken[0].drained);
  while (s.compute()) {
  }
  EXPECT_EQ(s.take<SendForward>().size(), 3u) << "step 2";
}

TEST(StageSessionTwoVersions, PassesOfTheNextStepAreComputedNoneAfterIt) {
  ReadyForTwo s(21);
  s.forward(11, mb(0, 2));
  s.forward(11, mb(0, 1));
  s.forward(11, mb(1, 0));
  EXPECT_EQ(s.compute()->microbatch, mb(1, 0)) << "the oldest step first";
  EXPECT_EQ(s.compute()->microbatch, mb(0, 1));
  EXPECT_FALSE(s.compute());
  s.gossip(11, 1, {});
  EXPECT_EQ(s.take<TakeStep>().at(0).tokens, Tokens(16)) << "of its own step only";
  EXPECT_EQ(s.compute()->microbatch, mb(0, 2));
  EXPECT_FALSE(s.forward(11, mb(2, 0)));
  EXPECT_EQ(s.take<SendRefusal>().at(0).reason, RefusalReason::kPast) << "two versions old";
}

TEST(StageSessionTwoVersions, ALateReplicaTakesWhatItHasBegun) {
  ReadyForTwo s(21);
  s.forward(11, mb(0, 0));
  s.forward(11, mb(0, 1));
  while (s.compute()) {
  }
  s.gossip(11, 3, {});
  const auto taken = s.take<TakeStep>();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].step, 0);
  EXPECT_FALSE(taken[0].drained);
  EXPECT_EQ(taken[1].step, 1);
  EXPECT_TRUE(taken[1].drained);
  EXPECT_EQ(s.session.step(), 3);
}

TEST(StageSessionTwoVersions, ALateReplicaWithNothingBegunIsDrained) {
  ReadyForTwo s(21);
  s.forward(11, mb(0, 0));
  s.compute();
  s.gossip(11, 2, {});
  const auto taken = s.take<TakeStep>();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_TRUE(taken[0].drained);
}

TEST(StageSessionTwoVersions, TheEndOfARouterAheadDoesNotCutThisStepShort) {
  ReadyForTwo s(1);
  s.gossip(11, 0, {{id(2), 3, true}});
  for (std::int64_t step = 0; step < 4; ++step) {
    while (s.compute()) {
    }
    s.answer_all(s.take<SendForward>());
  }
  const auto ended = s.take<ReachBoundary>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].step, 4);
  EXPECT_EQ(ended[0].drawn, 12) << "all of the lease";
}

}  // namespace
}  // namespace shoal::swarm
