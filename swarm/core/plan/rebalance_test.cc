#include "swarm/core/plan/rebalance.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

// Stages of equal work with the given numbers of equal agents.
RebalanceView view_of(const std::vector<int>& replicas) {
  RebalanceView view;
  std::uint64_t next = 1;
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    view.stages.push_back({1, Bytes(4)});
    view.state.push_back(Bytes(1000));
    view.sources.push_back(100);  // 10 s
    for (int i = 0; i < replicas[s]; ++i) {
      view.replicas.push_back({ReplicaId(next++), static_cast<StageIndex>(s), 1, Bytes(4)});
    }
  }
  return view;
}

TEST(Join, WeakestStageButFirstTheMinimum) {
  EXPECT_EQ(joiner_stage(view_of({3, 2, 4}), {Bytes(4), {}}, 1).stage, 1);
  RebalanceView view = view_of({3, 2, 4});
  view.replicas[0].speed = view.replicas[1].speed = view.replicas[2].speed = 0.1;
  EXPECT_EQ(joiner_stage(view, {Bytes(4), {}}, 1).stage, 0);
  EXPECT_EQ(joiner_stage(view, {Bytes(4), {}}, 3).stage, 1);
  EXPECT_EQ(joiner_stage(view, {Bytes(4), {}}, 3).reason, JoinReason::kBelowMinimum);
  EXPECT_EQ(joiner_stage(view, {Bytes(3), {}}, 1).reason, JoinReason::kNothingFits);
}

TEST(Join, AmongEqualStagesTheOneWithoutItsDomain) {
  RebalanceView view = view_of({2, 2, 2});
  const auto joins = [&](const char* domain, std::int32_t min_replicas) {
    return joiner_stage(view, {Bytes(4), domain}, min_replicas).stage;
  };
  view.replicas[0].domain = view.replicas[4].domain = "north";
  EXPECT_EQ(joins("north", 1), 1);
  EXPECT_EQ(joins("south", 1), 0);
  EXPECT_EQ(joins("", 1), 0);
  view.replicas[2].domain = "north";
  EXPECT_EQ(joins("north", 1), 0) << "it is everywhere";
  view.replicas[0].domain = {};
  view.replicas[0].speed = 1.05;
  EXPECT_EQ(joins("north", 1), 0) << "about equal";
  view.replicas[0].speed = 1.5;
  EXPECT_EQ(joins("north", 1), 1) << "a weaker stage counts more than a domain";
  EXPECT_EQ(joins("north", 3), 0) << "all lack one: speeds do not matter";
  view.replicas[5].stage = 1;
  EXPECT_EQ(joins("north", 3), 2) << "the one that lacks most";
}

TEST(Join, AFullStageTakesNobody) {
  EXPECT_EQ(joiner_stage(view_of({3, 2, 4}), {Bytes(4), {}}, 1, 2).reason,
            JoinReason::kNothingFits);
  EXPECT_EQ(joiner_stage(view_of({2, 2, 1}), {Bytes(4), {}}, 1, 2).stage, 2);
}

TEST(Emergency, TakesTheSlowestThatCanBeSpared) {
  RebalanceView view = view_of({1, 3, 2});
  view.replicas[2].speed = 0.5;
  const auto moves = emergency_moves(view, 2);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0], (Move{ReplicaId(3), 1, 0, MoveReason::kBelowMinimum, 0}));
  EXPECT_TRUE(emergency_moves(view_of({2, 2, 1}), 2).empty());
  EXPECT_EQ(emergency_moves(view_of({0, 5, 0}), 1).size(), 2u);
}

TEST(Emergency, OnlyWhoIsFreeToMoveIsTaken) {
  RebalanceView view = view_of({0, 3});
  view.replicas[0].in_transit = true;
  view.replicas[1].shares = true;
  const auto moves = emergency_moves(view, 1);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].replica, ReplicaId(3));
  view.replicas[2].memory = Bytes(3);
  EXPECT_TRUE(emergency_moves(view, 1).empty()) << "the stage does not fit there";
}

TEST(Emergency, WhoKeepsWhatTheStageNeedsStays) {
  RebalanceView view = view_of({0, 2});
  view.replicas[0].stays = true;
  const auto moves = emergency_moves(view, 1);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].replica, ReplicaId(2)) << "and its stage still has the one that stays";
  view.replicas[1].stays = true;
  EXPECT_TRUE(emergency_moves(view, 1).empty());
}

TEST(Emergency, WhoLeftTheStageReturnsOnlyIfNobodyElseCan) {
  RebalanceView view = view_of({0, 3});
  view.replicas[0].speed = 0.5, view.replicas[0].left = {0};
  EXPECT_EQ(emergency_moves(view, 1).at(0).replica, ReplicaId(2));
  view.replicas[1].stays = view.replicas[2].stays = true;
  EXPECT_EQ(emergency_moves(view, 1).at(0).replica, ReplicaId(1));
}

TEST(Emergency, AStageKeepsOneThatHoldsItsState) {
  RebalanceView view = view_of({0, 2});
  view.replicas[1].in_transit = true;
  EXPECT_TRUE(emergency_moves(view, 1).empty()) << "who loads may fail, and nobody would be left";
  view.has_trained = false;
  EXPECT_EQ(emergency_moves(view, 1).size(), 1u);
}

TEST(Balance, OnlyWhoIsFreeToMoveMoves) {
  Rebalancer rebalancer({.confirmations = 1, .in_transit_share_max = 1});
  RebalanceView view = view_of({2, 8});
  for (std::size_t i = 2; i < 9; ++i)
    (i % 2 == 0 ? view.replicas[i].shares : view.replicas[i].in_transit) = true;
  const BalanceDecision decision = rebalancer.step(view);
  ASSERT_EQ(decision.moves.size(), 1u);
  EXPECT_EQ(decision.moves[0].replica, ReplicaId(10));
}

TEST(Balance, WhoeverIsFreeToMoveMoves) {
  for (std::size_t only = 0; only < 8; ++only) {
    Rebalancer rebalancer({.confirmations = 1});
    RebalanceView view = view_of({8, 2});
    for (std::size_t i = 0; i < 8; ++i) view.replicas[i].shares = i != only;
    const BalanceDecision decision = rebalancer.step(view);
    ASSERT_EQ(decision.moves.size(), 1u);
    EXPECT_EQ(decision.moves[0].replica, ReplicaId(only + 1));
  }
}

// Stage 0 is twice the work: 8 and 2 agents are capacities of 4 and 2, afterwards 3.5 and 3.
TEST(Balance, ReckonsWithTheWorkOfBothStages) {
  Rebalancer rebalancer({.confirmations = 1, .in_transit_share_max = 1});
  RebalanceView view = view_of({8, 2});
  view.stages[0].work = 2;
  const BalanceDecision decision = rebalancer.step(view);
  EXPECT_DOUBLE_EQ(decision.weakest, 2);
  EXPECT_DOUBLE_EQ(decision.mean, 3);
  ASSERT_EQ(decision.moves.size(), 1u);
  EXPECT_DOUBLE_EQ(decision.moves[0].gain, 1);
}

TEST(Balance, AmongEqualGainsItComesFromTheRichestStage) {
  Rebalancer rebalancer({.confirmations = 1});
  const BalanceDecision decision = rebalancer.step(view_of({1, 5, 7}));
  ASSERT_EQ(decision.moves.size(), 1u);
  EXPECT_EQ(decision.moves[0].from, 2);
}

TEST(Balance, NoStageFallsBelowTheMinimum) {
  Rebalancer rebalancer({.min_replicas = 7, .confirmations = 1, .in_transit_share_max = 1});
  const BalanceDecision decision = rebalancer.step(view_of({2, 8}));
  EXPECT_EQ(decision.moves.size(), 1u);
}

TEST(Balance, TheLastButOneCopyOfAStageStays) {
  RebalanceView view = view_of({2, 2});
  view.replicas[0].speed = view.replicas[1].speed = .1;  // badly out of balance
  EXPECT_EQ(Rebalancer({}).step(view).verdict, BalanceVerdict::kNoGain);
  view.replicas.push_back({ReplicaId(5), 1, 1, Bytes(4)});
  EXPECT_EQ(Rebalancer({}).step(view).moves.at(0).to, 0);
}

// A job may allow that one copy is left: then a cluster of two by two balances itself.
TEST(Balance, ASmallClusterMovesDownToOneCopyWhereTheJobAllowsIt) {
  RebalanceView view = view_of({2, 2});
  view.replicas[0].speed = view.replicas[1].speed = .1;
  const BalanceDecision kept = Rebalancer({}).step(view);
  EXPECT_EQ(kept.verdict, BalanceVerdict::kNoGain);
  EXPECT_EQ(kept.weakest_stage, 0);
  EXPECT_EQ(kept.held_back, 2) << "both of stage 1 would help";
  const BalanceDecision moved = Rebalancer({.copies_min = 1}).step(view);
  ASSERT_EQ(moved.moves.size(), 1u);
  EXPECT_EQ(moved.moves[0].replica, ReplicaId(3));
  EXPECT_DOUBLE_EQ(moved.moves[0].gain, .8);
  EXPECT_EQ(Rebalancer({.min_replicas = 2, .copies_min = 1}).step(view).verdict,
            BalanceVerdict::kNoGain);
  view.replicas[2].in_transit = true;
  EXPECT_EQ(Rebalancer({.copies_min = 1, .in_transit_share_max = 1}).step(view).verdict,
            BalanceVerdict::kNoGain)
      << "the one that loads may fail, and the stage would have lost its state";
}

TEST(Balance, MovesAfterConfirmation) {
  Rebalancer rebalancer({.in_transit_share_max = 1});
  const RebalanceView view = view_of({3, 8, 8});
  EXPECT_EQ(rebalancer.step(view).verdict, BalanceVerdict::kUnconfirmed);
  const BalanceDecision decision = rebalancer.step(view);
  ASSERT_EQ(decision.verdict, BalanceVerdict::kMoves);
  EXPECT_EQ(decision.moves.size(), 3u);
  for (const Move& move : decision.moves) EXPECT_EQ(move.to, 0);
}

TEST(Balance, OneLookIsEnoughWhenAStageIsFarBehind) {
  Rebalancer rebalancer({});
  EXPECT_EQ(rebalancer.step(view_of({1, 9})).verdict, BalanceVerdict::kMoves);
}

TEST(Balance, AFullStageTakesNobody) {
  Rebalancer rebalancer({.max_replicas = 2, .confirmations = 1});
  EXPECT_EQ(rebalancer.step(view_of({8, 2})).verdict, BalanceVerdict::kNoGain);
  Rebalancer one_each({.max_replicas = 1, .confirmations = 1});
  EXPECT_EQ(one_each.step(view_of({8, 1})).verdict, BalanceVerdict::kNoGain);
}

TEST(Balance, CalmsDownInsideTheHysteresis) {
  Rebalancer rebalancer({});
  EXPECT_EQ(rebalancer.step(view_of({100, 100, 102})).verdict, BalanceVerdict::kBalanced);
  EXPECT_EQ(rebalancer.step(view_of({2, 8})).verdict, BalanceVerdict::kUnconfirmed);
  EXPECT_EQ(rebalancer.step(view_of({5, 5})).verdict, BalanceVerdict::kBalanced);
  EXPECT_EQ(rebalancer.step(view_of({2, 8})).verdict, BalanceVerdict::kUnconfirmed);
}

TEST(Balance, DoesNotMoveWhatDoesNotPay) {
  Rebalancer rebalancer({.confirmations = 1});
  RebalanceView view = view_of({2, 8});
  view.sources[0] = 1000 / 3000.0;
  EXPECT_EQ(rebalancer.step(view).verdict, BalanceVerdict::kDoesNotPay);
  view.sources[0] = 100;
  for (RebalanceReplica& replica : view.replicas) replica.expected_life = seconds(12);
  EXPECT_EQ(rebalancer.step(view).verdict, BalanceVerdict::kDoesNotPay);
}

// 1.6 GB of state in 1,800 s: at 1 Gbit/s it is there within 13 s, at 5 Mbit/s in 43 minutes. The
// line of the replica that moves binds as much as those of its sources.
TEST(Balance, PricesAMoveByTheLines) {
  RebalanceView view = view_of({2, 4});
  view.state = {Bytes(1'600'000'000), Bytes(1'600'000'000)};
  const auto look = [&](double sources, double down) {
    view.sources = {sources, sources};
    for (RebalanceReplica& replica : view.replicas) replica.down = down;
    return Rebalancer({.confirmations = 1}).step(view);
  };
  const BalanceDecision fast = look(125e6, 250e6);
  EXPECT_EQ(fast.verdict, BalanceVerdict::kMoves);
  ASSERT_TRUE(fast.considered);
  EXPECT_DOUBLE_EQ(fast.considered->worth.bytes_per_s, 125e6);
  EXPECT_NEAR(fast.considered->worth.away.seconds(), 5 + 12.8, 1e-6);
  for (const auto& [sources, down] : {std::pair(625e3, 250e6), std::pair(250e6, 625e3)}) {
    const BalanceDecision slow = look(sources, down);
    EXPECT_EQ(slow.verdict, BalanceVerdict::kDoesNotPay);
    ASSERT_TRUE(slow.considered);
    EXPECT_NEAR(slow.considered->worth.away.seconds(), 5 + 2560, 1e-6);
    EXPECT_EQ(slow.considered->worth.bound, seconds(1800));
    EXPECT_DOUBLE_EQ(slow.considered->worth.gain, 1);
  }
}

// 100 and 110.5: with one of 10 on the other side, 110 and 100.5.
TEST(Balance, AGainThatCostsAnotherStageAsMuchMovesNobody) {
  RebalanceView view = view_of({10, 10});
  for (RebalanceReplica& replica : view.replicas) replica.speed = 10;
  view.replicas[19].speed = 20.5;
  const BalanceDecision decision = Rebalancer({.confirmations = 1}).step(view);
  EXPECT_EQ(decision.verdict, BalanceVerdict::kDoesNotPay);
  ASSERT_TRUE(decision.considered);
  EXPECT_DOUBLE_EQ(decision.considered->worth.gain, 0.5);
}

TEST(Balance, NobodyReturnsToTheStageThatItLeft) {
  RebalanceView view = view_of({2, 3});
  for (RebalanceReplica& replica : view.replicas) replica.speed = 1 + (replica.stage == 1);
  for (RebalanceReplica& replica : view.replicas) replica.left = {0};
  EXPECT_EQ(Rebalancer({.confirmations = 1}).step(view).verdict, BalanceVerdict::kNoGain);
  view.replicas[2].left = {};
  EXPECT_EQ(Rebalancer({.confirmations = 1}).step(view).moves.at(0).replica, ReplicaId(3));
}

TEST(Balance, NeedsAGainAndABudget) {
  Rebalancer rebalancer({.confirmations = 1});
  EXPECT_EQ(rebalancer.step(view_of({1, 2})).verdict, BalanceVerdict::kNoGain);
  RebalanceView view = view_of({2, 8});
  view.replicas[9].in_transit = true;
  EXPECT_EQ(rebalancer.step(view).verdict, BalanceVerdict::kTransitBudget);
}

}  // namespace
}  // namespace shoal::swarm
