// One session at a time, driven by hand: what it does on each kind of call.
#include <gtest/gtest.h>

#include "swarm/core/session/stage_session_test_util.h"

namespace shoal::swarm {
namespace {

TEST(StageSession, APassGoesDownAndItsAnswerUp) {
  Ready s(11);
  const auto task = s.forward(1, mb(0));
  EXPECT_EQ(s.compute()->kind, ComputeKind::kForward);
  const auto sent = s.take<SendForward>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].task, *task);
  EXPECT_EQ(s.answer(sent[0]), task);
  const auto backward = s.compute();
  EXPECT_EQ(backward->kind, ComputeKind::kBackward);
  EXPECT_TRUE(backward->add);
  const auto up = s.take<SendBackward>();
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].to, id(1));
  EXPECT_EQ(up[0].header.service, kService * 2);
  EXPECT_EQ(up[0].header.loss_sum, 3);
  EXPECT_EQ(s.take<Forget>().at(0).task, *task);
}

TEST(StageSession, BackwardBeforeForwardAndTheOldestFirst) {
  Ready s(11);
  s.forward(1, mb(1));
  s.compute();
  s.forward(2, mb(1, 0, 2));
  s.forward(2, mb(0, 0, 2));
  s.answer(s.take<SendForward>().at(0));
  EXPECT_EQ(s.compute()->microbatch, mb(0, 0, 2));
  EXPECT_EQ(s.compute()->kind, ComputeKind::kBackward);
  EXPECT_EQ(s.compute()->microbatch, mb(1, 0, 2));
}

TEST(StageSession, WhatWasBelowALostReplicaIsSentToAnotherOne) {
  Ready s(11);
  const auto task = s.forward(1, mb(0));
  s.compute();
  const SendForward first = s.take<SendForward>().at(0);
  s.session.lost(s.now, first.to, s.out);
  const SendForward second = s.take<SendForward>().at(0);
  EXPECT_EQ(second.task, *task);
  EXPECT_NE(second.to, first.to);
  EXPECT_EQ(second.header.attempt, 2);
  EXPECT_FALSE(s.answer(first));
  EXPECT_TRUE(s.answer(second));
  EXPECT_EQ(s.session.stats().resent, 1);
  s.session.lost(s.now, second.to, s.out);  // the answer is here: nothing to send again
  EXPECT_TRUE(s.take<SendForward>().empty());
  EXPECT_EQ(s.compute()->kind, ComputeKind::kBackward);
}

TEST(StageSession, ALostSendersTasksAreDroppedAndCancelled) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  s.forward(1, mb(1));
  const SendForward sent = s.take<SendForward>().at(0);
  s.session.lost(s.now, id(1), s.out);
  const auto cancels = s.take<SendCancel>();
  ASSERT_EQ(cancels.size(), 1u);
  EXPECT_EQ(cancels[0].to, sent.to);
  EXPECT_EQ(cancels[0].header, sent.header);
  EXPECT_EQ(s.take<Forget>().size(), 2u);
  EXPECT_FALSE(s.compute());
  // The same microbatch by another way: a new attempt, so that an old answer cannot pass for it.
  s.forward(2, mb(0));
  s.compute();
  EXPECT_EQ(s.take<SendForward>().at(0).header.attempt, 2);
  EXPECT_EQ(s.session.stats().recomputed, 1);
}

TEST(StageSession, ADroppedPassThatIsComputedIsForgottenAfterwards) {
  Ready s(11);
  s.forward(1, mb(0));
  ASSERT_TRUE(s.session.next());
  s.session.cancelled(s.now, id(1), {mb(0), 1}, s.out);
  EXPECT_TRUE(s.take<Forget>().empty());
  s.session.computed(s.now, kService, 0, {}, s.out);
  EXPECT_EQ(s.take<Forget>().size(), 1u);
  EXPECT_TRUE(s.take<SendForward>().empty());
}

TEST(StageSession, AMicrobatchIsAddedOnceHoweverItComes) {
  Ready s(21);
  s.forward(11, mb(0));
  s.forward(12, mb(0));
  EXPECT_TRUE(s.compute()->add);
  EXPECT_FALSE(s.compute()->add);
  EXPECT_EQ(s.take<SendBackward>().size(), 2u);  // both are answered
  s.gossip(11, 1, {});
  EXPECT_EQ(s.take<TakeStep>().at(0).tokens, Tokens(16));
  s.forward(11, mb(0, 1));
  EXPECT_TRUE(s.compute()->add) << "another step";
  EXPECT_EQ(s.session.stats().answered_only, 1);
}

// A round that is aborted after the job's last step has none left. A replica that is still behind
// ends where it is, when its device is free.
TEST(StageSession, ARoundWithoutStepsIsOverAtOnce) {
  Fixture s(11);
  s.session.view(s.now, full_view(), s.out);
  s.open(4, 4, 0);
  const auto reached = s.take<ReachBoundary>();
  ASSERT_EQ(reached.size(), 1u);
  EXPECT_EQ(reached[0].step, 4);
  s.open(4, 4, 0);
  EXPECT_TRUE(s.take<ReachBoundary>().empty()) << "once";
  Ready late(21);
  late.forward(11, mb(0));
  ASSERT_TRUE(late.session.next());
  late.open(4, 4, 0);
  EXPECT_TRUE(late.take<ReachBoundary>().empty());
  late.session.computed(late.now, kService, 1, Tokens(16), late.out);
  EXPECT_EQ(late.take<TakeStep>().at(0).tokens, Tokens(16));
  EXPECT_EQ(late.take<ReachBoundary>().size(), 1u);
}

// Above it somebody was lost: another replica of this stage may have added the microbatch, too.
TEST(StageSession, AGradientOfWhatWasSentAgainIsCountedAsSuch) {
  Ready s(21);
  s.forward(11, mb(0), 2);
  s.forward(11, mb(1), 1);
  EXPECT_TRUE(s.compute()->add);
  EXPECT_TRUE(s.compute()->add);
  EXPECT_EQ(s.session.stats().added_again, 1);
  s.forward(12, mb(0), 3);
  EXPECT_FALSE(s.compute()->add);
  EXPECT_EQ(s.session.stats().added_again, 1) << "answered, not added";
}

TEST(StageSession, AttemptsCountOnFromTheOneThatCame) {
  Ready s(11);
  s.forward(1, mb(0), 3);
  s.compute();
  const SendForward first = s.take<SendForward>().at(0);
  EXPECT_EQ(first.header.attempt, 3);
  s.session.lost(s.now, first.to, s.out);
  EXPECT_EQ(s.take<SendForward>().at(0).header.attempt, 4);
}

// A burst of losses spends the budget; what is left over waits for more of it.
TEST(StageSession, LossesDrawFromTheRetryBudget) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  std::int64_t sends = 0;
  for (; sends < 10'000; ++sends) {
    const auto sent = s.take<SendForward>();
    if (sent.empty()) break;
    s.session.lost(s.now, sent[0].to, s.out);
    s.session.connected(s.now, sent[0].to, s.out);
  }
  EXPECT_EQ(sends, 1 + 256);
  ASSERT_TRUE(s.session.next_deadline());
  s.wait(seconds(2));
  EXPECT_EQ(s.take<SendForward>().size(), 1u);
}

TEST(StageSession, ARepeatedFrameIsDropped) {
  Ready s(21);
  EXPECT_TRUE(s.forward(11, mb(0)));
  EXPECT_FALSE(s.forward(11, mb(0)));
  EXPECT_FALSE(s.forward(99, mb(0))) << "no stream";
  EXPECT_TRUE(s.take<SendRefusal>().empty());
}

TEST(StageSession, LaterStepsWaitAndPastOnesAreRefused) {
  Ready s(21);
  EXPECT_TRUE(s.forward(11, mb(0, 1)));
  EXPECT_FALSE(s.compute());
  s.gossip(11, 1, {});
  EXPECT_TRUE(s.compute());
  EXPECT_FALSE(s.forward(11, mb(7, 0)));
  EXPECT_EQ(s.take<SendRefusal>().at(0).reason, RefusalReason::kPast);
  Microbatch next_round = mb(0, 4);
  next_round.round = 2;
  EXPECT_TRUE(s.forward(12, next_round));
  EXPECT_FALSE(s.compute());
  s.session.stop(s.now, s.out);
  s.session.committed(s.now, 1, 4, s.out);
  EXPECT_FALSE(s.forward(11, mb(0, 2)));
  EXPECT_EQ(s.session.stats().past, 2);
}

TEST(StageSession, AFrameOfAStrangerIsRefusedUntilTheViewNamesIt) {
  Ready s(21);
  s.session.connected(s.now, id(13), s.out);
  EXPECT_FALSE(s.forward(13, mb(0)));
  EXPECT_EQ(s.take<SendRefusal>().at(0).reason, RefusalReason::kNotInView);
  PipelineView view = full_view(2);
  view.members.push_back({id(13), 1, "", 0});
  s.session.view(s.now, view, s.out);
  EXPECT_TRUE(s.forward(13, mb(0), 2));
}

TEST(StageSession, TooManyFramesOfOneSenderAreRefused) {
  Ready s(21);
  std::int32_t taken = 0;
  while (taken < 10'000 && s.forward(11, mb(taken))) ++taken;
  EXPECT_LT(taken, 1000);
  EXPECT_EQ(s.take<SendRefusal>().at(0).reason, RefusalReason::kOverCredit);
  EXPECT_TRUE(s.forward(12, mb(0)));
}

TEST(StageSession, ARefusalPausesTheReplicaAndTakesAnother) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  const SendForward first = s.take<SendForward>().at(0);
  s.session.refused(s.now, first.to, first.header, RefusalReason::kNotInView, s.out);
  const SendForward second = s.take<SendForward>().at(0);
  EXPECT_NE(second.to, first.to);
  s.session.refused(s.now, second.to, second.header, RefusalReason::kNotInView, s.out);
  EXPECT_TRUE(s.take<SendForward>().empty());
  ASSERT_TRUE(s.session.next_deadline());
  s.now = *s.session.next_deadline();
  s.session.tick(s.now, s.out);
  EXPECT_EQ(s.take<SendForward>().size(), 1u);
}

TEST(StageSession, ARefusalAsPastIsNotSentAgain) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  const SendForward sent = s.take<SendForward>().at(0);
  s.session.refused(s.now, sent.to, sent.header, RefusalReason::kPast, s.out);
  s.wait(seconds(5));
  EXPECT_TRUE(s.take<SendForward>().empty());
  s.gossip(21, 1, {});
  EXPECT_EQ(s.take<Forget>().size(), 1u);
  EXPECT_EQ(s.session.step(), 1);
}

TEST(StageSession, BadTensorsThreeTimesGiveUp) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  for (int i = 0; i < 3; ++i) {
    s.wait(seconds(1));
    EXPECT_TRUE(s.take<GiveUp>().empty());
    const SendForward sent = s.take<SendForward>().at(0);
    s.session.refused(s.now, sent.to, sent.header, RefusalReason::kBadTensor, s.out);
  }
  EXPECT_EQ(s.take<GiveUp>().size(), 1u);
}

TEST(StageSession, RefusalsCannotMakeAStorm) {
  Ready s(11);
  s.forward(1, mb(0));
  s.compute();
  std::int64_t sends = 0;
  for (int i = 0; i < 100'000; ++i) {
    for (const SendForward& sent : s.take<SendForward>()) {
      ++sends;
      s.session.refused(s.now, sent.to, sent.header, RefusalReason::kOverCredit, s.out);
    }
    s.wait(milliseconds(10));
  }
  EXPECT_LE(sends, 256 + 1000 + 10);  // the burst, then one a second
  EXPECT_GT(sends, 1000);
}

TEST(StageSession, TheStepEndsWhenAllRoutersAreDoneButNotWhileComputing) {
  Ready s(21);
  s.forward(11, mb(0));
  ASSERT_TRUE(s.session.next());
  s.gossip(11, 0, {{id(1), 0, false}});
  s.gossip(12, 0, {{id(2), 0, false}});
  EXPECT_TRUE(s.take<TakeStep>().empty());
  s.session.computed(s.now, kService, 1, Tokens(16), s.out);
  const auto taken = s.take<TakeStep>();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].step, 0);
  EXPECT_EQ(taken[0].tokens, Tokens(16));
  EXPECT_EQ(s.session.step(), 1);
}

TEST(StageSession, ARouterThatLeftTheViewDoesNotCount) {
  Ready s(21);
  s.gossip(11, 0, {{id(1), 0, false}});
  EXPECT_EQ(s.session.step(), 0);
  s.forward(12, mb(3, 0, 2));
  s.session.view(s.now, without(full_view(), 2, 2), s.out);
  EXPECT_EQ(s.session.step(), 1);
  EXPECT_EQ(s.take<Forget>().size(), 1u);
  PipelineView none = without(without(full_view(), 2, 3), 1, 3);
  s.session.view(s.now, none, s.out);
  EXPECT_EQ(s.session.step(), 1) << "no routers: wait";
}

TEST(StageSession, TheRoundEndsWhenAllRoutersSaidLast) {
  Ready s(21);
  s.gossip(11, 0, {{id(1), 0, true}, {id(2), 1, true}});
  EXPECT_EQ(s.take<TakeStep>().size(), 2u);
  const auto reached = s.take<ReachBoundary>();
  ASSERT_EQ(reached.size(), 1u);
  EXPECT_EQ(reached[0].step, 2);
  EXPECT_FALSE(s.session.training());
  s.open(0, 4, 3);
  EXPECT_FALSE(s.session.training()) << "a repeated opening";
  s.open(2, 6, 3);  // after an abort; what routers said before does not end it
  EXPECT_TRUE(s.session.training());
  s.gossip(11, 2, {{id(1), 1, true}, {id(2), 1, true}});
  EXPECT_TRUE(s.session.training());
}

TEST(StageSession, ALateReplicaAdoptsTheHighestStep) {
  Ready s(21);
  s.forward(11, mb(0));
  s.compute();
  s.gossip(11, 3, {{id(1), 2, false}, {id(2), 2, false}});
  EXPECT_EQ(s.session.step(), 3);
  EXPECT_EQ(s.take<TakeStep>().size(), 1u);
}

TEST(StageSession, WhatALateReplicaLeavesBehindIsRefusedAsPast) {
  Ready s(21);
  s.forward(11, mb(0));
  s.forward(12, mb(1, 3));
  s.gossip(11, 3, {{id(1), 2, false}, {id(2), 2, false}});
  const auto refused = s.take<SendRefusal>();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].to, id(11));
  EXPECT_EQ(refused[0].reason, RefusalReason::kPast);
  EXPECT_EQ(refused[0].header.microbatch, mb(0));
  EXPECT_EQ(s.compute()->microbatch, mb(1, 3)) << "what came early is its step now";
}

TEST(StageSession, OthersNewsWaitAMomentAndAreNotEchoed) {
  Ready s(21);
  s.take<SendGossip>();
  s.gossip(11, 0, {{id(1), 0, false}});
  EXPECT_TRUE(s.take<SendGossip>().empty());
  s.wait(milliseconds(50));
  const auto words = s.take<SendGossip>();
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].to, id(12));
  s.gossip(12, 0, {{id(1), 0, false}, {id(2), 0, false}});  // the step is over: at once
  EXPECT_EQ(s.take<SendGossip>().size(), 2u);
}

TEST(StageSession, WordsOfTheNextRoundAreKept) {
  Ready s(21);
  s.session.gossip(s.now, id(11), {2, 6, {{id(1), 5, false}, {id(2), 5, false}}}, s.out);
  EXPECT_EQ(s.session.step(), 0);
  s.go_to_round_2();
  EXPECT_EQ(s.session.step(), 6);
}

TEST(StageSession, WordsOfTheNextRoundFromSeveralAreOne) {
  Ready s(21);
  s.session.gossip(s.now, id(11), {2, 4, {{id(1), 5, false}}}, s.out);
  s.session.gossip(s.now, id(12), {2, 6, {{id(1), 3, false}, {id(2), 5, false}}}, s.out);
  s.go_to_round_2();
  EXPECT_EQ(s.session.step(), 6);
}

TEST(StageSession, AViewWithoutItDropsAll) {
  Ready s(11);
  s.forward(1, mb(0));
  s.session.view(s.now, without(full_view(), 11, 2), s.out);
  EXPECT_EQ(s.take<Forget>().size(), 1u);
  EXPECT_TRUE(s.take<Dial>().back().peers.empty());
  EXPECT_FALSE(s.compute());
  s.session.view(s.now, full_view(1), s.out);
  EXPECT_TRUE(s.take<Dial>().empty()) << "an old view";
}

TEST(StageSession, ANewStreamOfAConnectedPeerReplacesTheOld) {
  Ready s(11);
  s.forward(1, mb(0));
  s.session.connected(s.now, id(1), s.out);
  EXPECT_EQ(s.take<Forget>().size(), 1u);
  EXPECT_TRUE(s.forward(1, mb(0)));
}

TEST(StageSession, ARouterDrawsItsStepsAndSaysWhenItIsDone) {
  Ready s(1);
  s.take<SendGossip>();
  for (std::int32_t i = 0; i < 3; ++i) EXPECT_EQ(s.compute()->microbatch, mb(i));
  EXPECT_FALSE(s.compute());
  for (const SendForward& sent : s.take<SendForward>()) s.answer(sent);
  EXPECT_TRUE(s.take<SendGossip>().empty());
  while (s.compute()) {
  }
  const auto words = s.take<SendGossip>();
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].gossip.routers, (std::vector<RouterProgress>{{id(1), 0, false}}));
  EXPECT_EQ(s.session.step(), 0) << "the other router is not done";
  s.gossip(11, 0, {{id(2), 0, false}});
  EXPECT_EQ(s.session.step(), 1);
  EXPECT_EQ(s.compute()->microbatch, mb(0, 1));
}

TEST(StageSession, CloseMakesTheCurrentStepTheLast) {
  Ready s(1);
  s.session.close(s.now, s.out);
  for (int i = 0; i < 3; ++i) s.compute();
  for (const SendForward& sent : s.take<SendForward>()) s.answer(sent);
  while (s.compute()) {
  }
  EXPECT_TRUE(s.take<SendGossip>().back().gossip.routers.at(0).last);
  s.gossip(11, 0, {{id(2), 0, true}});
  const ReachBoundary reached = s.take<ReachBoundary>().at(0);
  EXPECT_EQ(reached.step, 1);
  EXPECT_EQ(reached.drawn, 3);
  EXPECT_EQ(reached.drawn_tokens, Tokens(48));
  EXPECT_EQ(reached.loss_sum, 9);
  EXPECT_EQ(reached.tokens, Tokens(48));
}

TEST(StageSession, ARouterThatComesAfterTheEndJoinsIt) {
  Ready s(1);
  s.gossip(11, 2, {{id(2), 1, true}});  // closed early, before this one had answers
  EXPECT_EQ(s.take<ReachBoundary>().at(0).step, 2);
}

TEST(StageSession, ARouterThatOpensTheLastStepLateStillDrawsItsShare) {
  Fixture s(1);
  s.session.view(s.now, full_view(), s.out);
  s.session.connected(s.now, id(11), s.out);
  s.gossip(11, 0, {{id(2), 0, true}});  // through with the round's only step
  s.open(0, 1, 3);
  for (std::int32_t i = 0; i < 3; ++i) EXPECT_EQ(s.compute()->microbatch, mb(i));
  EXPECT_TRUE(s.take<TakeStep>().empty());
  for (const SendForward& sent : s.take<SendForward>()) s.answer(sent);
  while (s.compute()) {
  }
  EXPECT_EQ(s.take<TakeStep>().at(0).tokens, Tokens(48));
  EXPECT_EQ(s.take<ReachBoundary>().at(0).drawn, 3);
}

TEST(StageSession, ARouterThatIsDoneWithItsStepNeverTakesThatBack) {
  Ready s(1);
  s.gossip(11, 1, {});  // the other one's last gossip is on another path
  for (int i = 0; i < 3; ++i) s.compute();
  for (const SendForward& sent : s.take<SendForward>()) s.answer(sent);
  while (s.compute()) {
  }
  EXPECT_EQ(s.take<SendGossip>().back().gossip.routers.at(0), (RouterProgress{id(1), 1, false}));
  s.gossip(12, 1, {{id(2), 0, true}});
  EXPECT_EQ(s.take<ReachBoundary>().at(0).step, 2);
  EXPECT_EQ(s.take<SendGossip>().back().gossip.routers.at(0), (RouterProgress{id(1), 1, true}));
}

TEST(StageSession, StopIsABoundaryAtOnce) {
  Ready s(21);
  s.forward(11, mb(0));
  s.forward(11, mb(1));
  ASSERT_TRUE(s.session.next());
  s.session.stop(s.now, s.out);
  EXPECT_TRUE(s.take<ReachBoundary>().empty()) << "a pass is under way";
  s.session.computed(s.now, kService, 1, Tokens(16), s.out);
  EXPECT_EQ(s.take<TakeStep>().at(0).tokens, Tokens(16));
  EXPECT_EQ(s.take<ReachBoundary>().at(0).tokens, Tokens(16));
  EXPECT_EQ(s.take<Forget>().size(), 2u);
  EXPECT_FALSE(s.forward(11, mb(2)));
  s.session.stop(s.now, s.out);
  EXPECT_TRUE(s.take<ReachBoundary>().empty());
}

TEST(StageSession, EvaluationComesBeforeTheFirstStepsEnd) {
  Ready s(1);
  s.session.stop(s.now, s.out);
  s.session.committed(s.now, 1, 4, s.out);
  s.session.evaluate(s.now, {JobId(1), 0, 1}, {1, 2, 4}, 1, s.out);
  s.take<SendForward>();
  for (const std::int32_t index : {1, 3}) {
    const auto pass = s.compute();
    EXPECT_EQ(pass->microbatch, (Microbatch{2, 4, id(1), index, PassKind::kLoss}));
  }
  for (const SendForward& sent : s.take<SendForward>()) s.answer(sent);
  const auto done = s.take<EvaluationDone>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tokens, Tokens(32));
  s.session.evaluate(s.now, {JobId(1), 0, 1}, {1, 2, 4}, 1, s.out);
  EXPECT_EQ(s.take<EvaluationDone>().at(0).tokens, Tokens(32)) << "asked again";
  s.session.evaluate(s.now, {JobId(1), 0, 0}, {0, 2, 4}, 1, s.out);
  EXPECT_EQ(s.take<EvaluationDone>().at(0).tokens, Tokens(0)) << "of another state";
}

// Its parameters are gone with the next commit: a waiting caller gets no tokens.
TEST(StageSession, AnEvaluationThatACommitOvertakesIsVoid) {
  Ready s(1);
  s.session.stop(s.now, s.out);
  s.session.committed(s.now, 1, 4, s.out);
  s.session.evaluate(s.now, {JobId(1), 0, 1}, {1, 2, 4}, 1, s.out);
  EXPECT_TRUE(s.take<EvaluationDone>().empty());
  s.session.committed(s.now, 2, 8, s.out);
  const auto done = s.take<EvaluationDone>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].key, (RoundKey{JobId(1), 0, 1}));
  EXPECT_EQ(done[0].tokens, Tokens(0));
}

TEST(StageSession, LogitsWaitUntilTheParametersAreAtRest) {
  Ready s(1);
  s.gossip(11, 1, {});  // past the opening step
  const TaskId task = s.session.logits(s.now, s.out);
  while (const auto pass = s.compute()) EXPECT_EQ(pass->microbatch.kind, PassKind::kTrain);
  s.session.stop(s.now, s.out);
  s.take<SendForward>();
  const auto pass = s.compute();
  EXPECT_EQ(pass->task, task);
  EXPECT_EQ(pass->microbatch.kind, PassKind::kLogits);
  s.answer(s.take<SendForward>().at(0));
  EXPECT_EQ(s.take<LogitsCame>().at(0).task, task);
}

TEST(StageSession, SamplingKeepsTheFirstStepOpen) {
  Ready s(1);
  const auto train_all = [&] {
    for (const SendForward& sent : s.take<SendForward>()) {
      if (sent.header.microbatch.kind == PassKind::kTrain) s.answer(sent);
    }
    while (s.compute()) {
    }
  };
  s.session.logits(s.now, s.out);
  while (s.compute()) {
  }
  train_all();
  s.gossip(11, 0, {{id(2), 0, false}});
  EXPECT_TRUE(s.take<TakeStep>().empty()) << "a pass is out";
  s.session.logits(s.now, s.out);
  s.session.sampled(s.now, s.out);
  EXPECT_EQ(s.take<SendCancel>().size(), 1u) << "the pass that is out";
  EXPECT_EQ(s.take<TakeStep>().size(), 1u);
  EXPECT_EQ(s.session.step(), 1);
}

TEST(StageSession, OneStageNeedsNobody) {
  Fixture s(1, 1);
  s.session.view(s.now, {.number = 1, .members = {{id(1), 0, "", 0}}}, s.out);
  s.open(0, 2, 3);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(s.compute()->kind, ComputeKind::kLast);
  EXPECT_EQ(s.take<TakeStep>().size(), 2u);
  EXPECT_EQ(s.take<ReachBoundary>().at(0).drawn, 6);
}

TEST(StageSession, BeforeAnyMeasurementSharesFollowTheSpeeds) {
  Fixture s(11);
  PipelineView view = full_view();
  for (PipelineMember& m : view.members) m.speed = m.replica == id(21) ? 3e12 : 1e12;
  s.session.view(s.now, view, s.out);
  for (const std::uint64_t n : {1, 21, 22}) s.session.connected(s.now, id(n), s.out);
  s.open(0, 1, 0);
  int fast = 0;
  for (std::int32_t i = 0; i < 40; ++i) {
    s.forward(1, mb(i));
    s.compute();
    const SendForward sent = s.take<SendForward>().at(0);
    fast += sent.to == id(21);
  }
  EXPECT_NEAR(fast, 30, 1);
}

Digest after(std::uint64_t self, const PipelineView& view) {
  Fixture s(self);
  s.session.view(s.now, view, s.out);
  return s.session.digest();
}

// The digest covers the dialed peers and their addresses, which decide what the driver is told
// next.
TEST(StageSession, TheDigestKnowsWhomItDials) {
  PipelineView moved = full_view();
  moved.members.back().address = "elsewhere:7100";
  EXPECT_EQ(after(11, full_view()), after(11, full_view()));
  EXPECT_NE(after(11, full_view()), after(11, moved));
}

// A replica of the last stage has no router for a neighbor.
TEST(StageSession, TheDigestKnowsTheRouters) {
  PipelineView other = full_view();
  other.members.front().replica = id(3);
  EXPECT_NE(after(21, full_view()), after(21, other));
}

}  // namespace
}  // namespace shoal::swarm
