// A replica that reaches nobody of the next stage: it waits with what it has, however long that
// takes, and after a while nobody waits for it. And one that the coordinator does not reach.
#include <gtest/gtest.h>

#include "swarm/core/session/stage_session_test_util.h"

namespace shoal::swarm {
namespace {

TEST(StageSessionCutOff, NobodyReachableForTheLimitIsToldOnce) {
  Fixture s(11);
  s.session.view(s.now, full_view(), s.out);
  EXPECT_EQ(s.take<Dial>().at(0).peers.size(), 2u);
  s.wait(milliseconds(9'999));
  EXPECT_TRUE(s.take<CutOff>().empty());
  EXPECT_EQ(*s.session.next_deadline(), Instant{} + seconds(10));
  s.wait(milliseconds(1));
  EXPECT_EQ(s.take<CutOff>().size(), 1u);
  s.wait(seconds(60));
  EXPECT_TRUE(s.take<CutOff>().empty());
  s.session.connected(s.now, id(21), s.out);
  s.session.lost(s.now, id(21), s.out);
  s.wait(seconds(10));
  EXPECT_EQ(s.take<CutOff>().size(), 1u) << "of the next time";
}

// A router of three stages that has drawn its share of the first step and lost its next stage.
struct CutOffRouter : Ready {
  CutOffRouter() : Ready(1) {
    session.connected(now, id(2), out);
    while (compute()) {
    }
    sent = take<SendForward>();
    for (const std::uint64_t next : {11, 12}) session.lost(now, id(next), out);
    wait(seconds(10));
    take<SendForward>();
    take<SendGossip>();
  }
  // What it says of itself in its newest word.
  std::int64_t done_through() {
    std::int64_t done = -1;
    for (const SendGossip& gossip : take<SendGossip>()) {
      for (const RouterProgress& p : gossip.gossip.routers) {
        if (p.router == id(1)) done = p.done_through;
      }
    }
    return done;
  }
  std::vector<SendForward> sent;
};

TEST(StageSessionCutOff, ARouterThatIsCutOffKeepsWhatItHasWhileNobodyWaits) {
  CutOffRouter s;
  EXPECT_EQ(s.sent.size(), 3u);
  s.wait(seconds(300));
  EXPECT_TRUE(s.take<Forget>().empty());
  s.session.connected(s.now, id(12), s.out);
  EXPECT_EQ(s.take<SendForward>().size(), 3u);
  EXPECT_EQ(s.session.step(), 0);
}

TEST(StageSessionCutOff, ARouterThatIsCutOffHoldsNobodyUp) {
  CutOffRouter s;
  s.gossip(2, 0, {{id(2), 0, false}});
  EXPECT_EQ(s.take<Forget>().size(), 3u) << "what it drew of step 0";
  EXPECT_EQ(s.session.step(), 1);
  EXPECT_EQ(s.done_through(), 0);
  for (std::int64_t step = 1; step < 4; ++step) {  // the others never wait again
    while (s.compute()) {
    }
    s.gossip(2, step, {{id(2), step, step == 3}});
    EXPECT_EQ(s.done_through(), step);
  }
  const auto boundary = s.take<ReachBoundary>();
  ASSERT_EQ(boundary.size(), 1u);
  EXPECT_EQ(boundary[0].step, 4);
  EXPECT_EQ(boundary[0].drawn, 0);
  EXPECT_EQ(boundary[0].tokens, Tokens(0));
}

TEST(StageSessionCutOff, ARouterThatWasCutOffDrawsAgain) {
  CutOffRouter s;
  s.gossip(2, 0, {{id(2), 0, false}});
  s.session.connected(s.now, id(11), s.out);
  while (s.compute()) {
  }
  const auto again = s.take<SendForward>();
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].header.microbatch.step, 1);
  s.gossip(2, 1, {{id(2), 1, false}});
  EXPECT_EQ(s.session.step(), 1) << "it has its share to do";
}

TEST(StageSessionCutOff, ARouterThatIsCutOffForAMomentIsWaitedFor) {
  Ready s(1);
  s.session.connected(s.now, id(2), s.out);
  while (s.compute()) {
  }
  for (const std::uint64_t next : {11, 12}) s.session.lost(s.now, id(next), s.out);
  s.gossip(2, 0, {{id(2), 0, false}});
  s.wait(milliseconds(9'999));
  EXPECT_EQ(s.session.step(), 0);
  EXPECT_TRUE(s.take<Forget>().empty());
  s.wait(milliseconds(1));
  EXPECT_EQ(s.session.step(), 1);
}

TEST(StageSessionCutOff, WhoIsCutOffInTheMiddleHandsBackWhatOthersCanPassOn) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  s.forward(2, mb(0, 0, 2));
  for (const std::uint64_t next : {21, 22}) s.session.lost(s.now, id(next), s.out);
  s.wait(seconds(10));
  const auto refused = s.take<SendRefusal>();
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].reason, RefusalReason::kNotInView);
  EXPECT_FALSE(s.forward(1, mb(1)));
  EXPECT_EQ(s.take<SendRefusal>().size(), 1u);
  s.session.connected(s.now, id(21), s.out);
  EXPECT_TRUE(s.forward(1, mb(1)));
}

TEST(StageSessionCutOff, WhoIsAloneInTheMiddleKeepsItForTheNextStage) {
  Ready s(11);
  s.session.view(s.now, without(full_view(), 12, 2), s.out);
  s.forward(1, mb(0));
  s.compute();
  s.take<SendForward>();
  for (const std::uint64_t next : {21, 22}) s.session.lost(s.now, id(next), s.out);
  s.wait(seconds(300));
  EXPECT_TRUE(s.take<SendRefusal>().empty());
  s.session.connected(s.now, id(22), s.out);
  EXPECT_EQ(s.take<SendForward>().size(), 1u);
}

// A sender whose line to the coordinator was cut hears only of the view that names it again: what
// was dropped meanwhile would be below it forever, and its step never over.
TEST(StageSessionCutOff, WhatAViewDropsIsRefusedToItsSender) {
  Ready above(11), s(21);
  above.forward(1, mb(0));
  above.compute();
  const SendForward sent = above.take<SendForward>().at(0);
  s.session.forward(s.now, id(11), sent.header, s.out);
  s.session.view(s.now, without(full_view(), 11, 2), s.out);
  const auto refusals = s.take<SendRefusal>();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].to, id(11));
  s.session.view(s.now, full_view(3), s.out);
  above.session.view(above.now, full_view(3), above.out);
  EXPECT_TRUE(above.take<SendForward>().empty()) << "the same members as before";
  above.session.refused(above.now, sent.to, refusals[0].header, refusals[0].reason, above.out);
  EXPECT_EQ(above.take<SendForward>().at(0).header.attempt, 2);
}

TEST(StageSessionCutOff, WhatADroppedRouterDrewIsRefusedToo) {
  Ready s(21);
  s.forward(11, mb(0, 0, 2));
  s.session.view(s.now, without(full_view(), 2, 2), s.out);
  EXPECT_EQ(s.take<SendRefusal>().at(0).to, id(11));
}

TEST(StageSessionCutOff, AnEmptyStageIsWaitedFor) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  s.take<SendForward>();
  s.session.view(s.now, without(without(full_view(), 21, 2), 22, 2), s.out);
  s.wait(seconds(60));
  EXPECT_TRUE(s.take<GiveUp>().empty());
  PipelineView back = without(without(full_view(), 21, 3), 22, 3);
  back.members.push_back({id(23), 2, "", 0});
  s.session.view(s.now, back, s.out);
  s.session.connected(s.now, id(23), s.out);
  EXPECT_EQ(s.take<SendForward>().at(0).to, id(23));
}

}  // namespace
}  // namespace shoal::swarm
