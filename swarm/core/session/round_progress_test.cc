#include "swarm/core/session/round_progress.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

using News = RoundProgress::News;
const ReplicaId kSelf(1), kOther(2), kThird(3);
const std::vector<ReplicaId> kRouters = {kSelf, kOther};

TEST(RoundProgress, KeepsTheFurthestThatItHears) {
  RoundProgress progress(kSelf);
  EXPECT_EQ(progress.hear({1, 0, {{kOther, 3, false}}}, 0), News::kRouters);
  EXPECT_EQ(progress.hear({1, 0, {{kOther, 2, false}}}, 0), News::kNone);
  EXPECT_EQ(progress.hear({1, 5, {}}, 0), News::kStep);
  EXPECT_EQ(progress.heard(), 5);
  EXPECT_TRUE(progress.is_through(kOther, 3));
  EXPECT_FALSE(progress.is_through(kOther, 4));
  EXPECT_EQ(progress.hear({1, 0, {{kSelf, 9, true}}}, 0), News::kNone) << "it knows better itself";
  EXPECT_EQ(progress.own_done(), -1);
}

TEST(RoundProgress, TheStepIsDoneWhenAllRoutersAre) {
  RoundProgress progress(kSelf);
  progress.done(0, false);
  EXPECT_FALSE(progress.all_done(kRouters, 0));
  progress.hear({1, 0, {{kOther, 0, false}}}, 0);
  EXPECT_TRUE(progress.all_done(kRouters, 0));
  EXPECT_FALSE(progress.all_done(kRouters, 1));
  EXPECT_FALSE(progress.all_done({}, 0)) << "no routers: wait";
  progress.hear({1, 0, {{kOther, 0, true}}}, 0);
  progress.done(1, false);
  EXPECT_TRUE(progress.all_done(kRouters, 1)) << "the other one has ended";
  EXPECT_FALSE(progress.all_ended(kRouters, 2));
  progress.done(1, true);
  EXPECT_TRUE(progress.all_ended(kRouters, 2));
  EXPECT_FALSE(progress.all_ended(kRouters, 1)) << "this one ends with step 1";
}

TEST(RoundProgress, TheFirstEndThatIsNotAhead) {
  RoundProgress progress(kSelf);
  EXPECT_FALSE(progress.first_end(9));
  progress.hear({1, 0, {{kOther, 4, true}, {kThird, 2, true}}}, 0);
  EXPECT_EQ(progress.first_end(9), 2);
  EXPECT_FALSE(progress.first_end(1));
}

TEST(RoundProgress, AnotherOpeningVoidsTheEndsBeforeIt) {
  RoundProgress progress(kSelf);
  progress.hear({1, 0, {{kOther, 3, true}}}, 0);
  progress.done(3, true);
  progress.begin(4);
  EXPECT_FALSE(progress.own_last());
  EXPECT_FALSE(progress.all_ended(kRouters, 4));
  EXPECT_TRUE(progress.all_done(kRouters, 3)) << "what was done stays done";
  EXPECT_EQ(progress.heard(), 4);
  progress.hear({1, 0, {{kOther, 3, true}}}, 0);
  EXPECT_FALSE(progress.all_ended(kRouters, 4)) << "told of the opening before";
}

TEST(RoundProgress, WhatIsToldOfTheNextRoundWaitsForIt) {
  RoundProgress progress(kSelf);
  EXPECT_EQ(progress.hear({2, 7, {{kOther, 6, false}}}, 0), News::kNone);
  EXPECT_EQ(progress.hear({2, 6, {{kOther, 5, false}, {kThird, 6, false}}}, 0), News::kNone);
  EXPECT_EQ(progress.heard(), -1);
  progress.done(3, true);
  progress.next_round(1);
  EXPECT_EQ(progress.heard(), 7);
  EXPECT_EQ(progress.own_done(), -1);
  EXPECT_TRUE(progress.is_through(kOther, 6));
  EXPECT_TRUE(progress.is_through(kThird, 6));
  EXPECT_EQ(progress.hear({1, 9, {}}, 1), News::kNone) << "of a round that is over";
}

TEST(RoundProgress, ALeaverIsForgottenUnlessItHasEnded) {
  RoundProgress progress(kSelf);
  progress.hear({1, 0, {{kOther, 1, true}, {kThird, 1, false}}}, 0);
  progress.forget(kOther);
  progress.forget(kThird);
  EXPECT_TRUE(progress.is_through(kOther, 1));
  EXPECT_FALSE(progress.is_through(kThird, 1));
}

TEST(RoundProgress, CatchingUpNeverGoesBack) {
  RoundProgress progress(kSelf);
  progress.catch_up(2, false);
  EXPECT_EQ(progress.own_done(), 2);
  progress.catch_up(1, true);
  EXPECT_EQ(progress.own_done(), 2);
  EXPECT_FALSE(progress.own_last());
  progress.done(2, true);
  progress.catch_up(5, false);
  EXPECT_EQ(progress.own_done(), 2) << "it has ended";
}

TEST(RoundProgress, KnowsWhoKnowsAsMuch) {
  RoundProgress progress(kSelf);
  progress.done(1, false);
  progress.hear({1, 0, {{kOther, 1, false}}}, 0);
  EXPECT_TRUE(progress.is_known_to_sender_of(progress.gossip(1, 0)));
  EXPECT_TRUE(progress.is_known_to_sender_of({1, 0, {{kSelf, 2, false}, {kOther, 1, true}}}));
  EXPECT_FALSE(progress.is_known_to_sender_of({1, 0, {{kSelf, 1, false}}}));
  EXPECT_FALSE(progress.is_known_to_sender_of({1, 0, {{kSelf, 0, false}, {kOther, 1, true}}}));
}

}  // namespace
}  // namespace shoal::swarm
