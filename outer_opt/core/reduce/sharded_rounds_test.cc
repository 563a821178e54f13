// Rounds of real sessions with members that come and go and each keep a part of the outer momentum
// (momentum_shards.h), compared bit for bit with one that keeps all of it.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/reduce/session_test_util.h"
#include "outer_opt/core/step/momentum_shards.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

TEST(ShardedRounds, PlansThatDoNotFitAreRefused) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 12, {1, 1});
  plan.owner_step.emplace();
  const std::vector<float> values(12), momentum(6);
  std::vector<float> out(12);
  const ReplicaId self = plan.members[0].replica;
  EXPECT_TRUE(make_session(plan, self, 4, {values, {}, momentum}, out).ok());
  EXPECT_FALSE(make_session(plan, self, 4, {values, {}, {}}, out).ok());
  plan.topology = Topology::kRing;
  EXPECT_FALSE(make_session(plan, self, 4, {values, {}, momentum}, out).ok());
}

// Rounds of a cluster whose members keep shards. `whole` is what one process would keep that holds
// all momentum and follows the same steps.
struct ShardedCluster {
  static constexpr std::int64_t kValues = 1000;
  CodecKind codec = CodecKind::kInt4;
  std::map<ReplicaId, MomentumShards> held;
  std::vector<MomentumHolder> holders;
  std::vector<float> whole = std::vector<float>(kValues), anchor = whole;
  std::int64_t fetched = 0;

  void fetch(const MomentumHolder& piece, MomentumShards& to) {
    const ValueRange range{piece.first, piece.count};
    const auto from = std::as_const(held.at(piece.replica)).at(range);
    std::copy(from.begin(), from.end(), to.at(range).begin());
    fetched += piece.count;
  }

  void stage(const ReducePlan& plan) {
    std::map<ReplicaId, MomentumShards> staged;
    for (const ReduceMember& m : plan.members) {
      auto made =
          restage(kept_ranges(plan.members, m.replica), m.replica, holders, held[m.replica]);
      ASSERT_TRUE(made.ok());
      for (const MomentumHolder& piece : made->missing) fetch(piece, made->shards);
      staged[m.replica] = std::move(made->shards);
    }
    held = std::move(staged);
  }

  void check_same_as_whole() {
    for (const auto& [replica, shards] : held) {
      for (const ValueRange& range : shards.ranges()) {
        const auto values = shards.at(range);
        EXPECT_EQ(std::memcmp(values.data(), whole.data() + range.first, 4 * values.size()), 0);
      }
    }
  }

  void round(const std::vector<std::uint64_t>& ids, std::uint64_t seed) {
    ReducePlan plan = make_plan(codec, kValues, unequal_weights(ids.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) plan.members[i].replica = ReplicaId(ids[i]);
    plan.owner_step = OwnerStep{{0.7, 0.9}, holders};
    stage(plan);
    std::vector<float> momentum(kValues);
    for (const ReduceMember& m : plan.members) {
      const auto own = std::as_const(held.at(m.replica)).at({m.part_first, m.part_count});
      std::copy(own.begin(), own.end(), momentum.begin() + m.part_first);
    }
    SessionSwarm swarm(plan, 64, random_inputs(plan, seed), momentum);
    Prng prng(seed);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    const std::vector<float>& step = swarm.averages[0];
    follow_step(plan.owner_step->outer, step, whole);
    apply_step(step, anchor);
    holders.clear();
    for (auto& [replica, shards] : held) {
      shards.follow(plan.owner_step->outer, {0, std::ssize(step)}, step);
      for (const ValueRange& r : shards.ranges()) {
        holders.push_back({replica, "host:1", r.first, r.count});
      }
    }
    check_same_as_whole();
  }

  void lose(std::uint64_t id) {
    std::erase_if(holders, [&](const auto& holder) { return holder.replica == ReplicaId(id); });
  }
};

TEST(ShardedRounds, MomentumSurvivesWhoeverLeavesAlone) {
  for (const CodecKind kind : kDenseCodecs) {
    ShardedCluster cluster;
    cluster.codec = kind;
    cluster.round({1, 2, 3}, 1);
    cluster.round({1, 2, 3}, 2);
    EXPECT_EQ(cluster.fetched, 0) << "while the members are the same, nothing moves";
    cluster.lose(1);
    EXPECT_EQ(values_without_holder(ShardedCluster::kValues, cluster.holders), 0);
    cluster.round({2, 3}, 3);
    cluster.round({2, 3, 4, 5}, 4);
    EXPECT_GT(cluster.fetched, 0);
    cluster.lose(3);
    cluster.round({2, 4, 5}, 5);
    cluster.lose(2);
    cluster.round({4, 5}, 6);
    cluster.lose(4);
    cluster.round({5}, 7);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ShardedRounds, NeighborsThatLeaveTogetherTakeTheirPartWithThem) {
  ShardedCluster cluster;
  cluster.round({1, 2, 3, 4}, 1);
  cluster.lose(1);
  cluster.lose(2);
  EXPECT_EQ(values_without_holder(ShardedCluster::kValues, cluster.holders), 250);
  std::fill(cluster.whole.begin(), cluster.whole.begin() + 250, 0.0f);
  cluster.round({3, 4}, 2);
}

TEST(ShardedRounds, TheStepIsThatOfTheWholeMomentum) {
  ShardedCluster cluster;
  cluster.codec = CodecKind::kFp32;
  std::vector<float> momentum(ShardedCluster::kValues), anchor = momentum;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cluster.round({1, 2, 3}, seed);
    const ReducePlan plan =
        make_plan(CodecKind::kFp32, ShardedCluster::kValues, unequal_weights(3));
    SessionSwarm plain(plan, 64, random_inputs(plan, seed));
    Prng prng(seed);
    plain.run(prng);
    nesterov_step({0.7, 0.9}, plain.averages[0], momentum, anchor);
  }
  for (std::size_t i = 0; i < anchor.size(); ++i) {
    EXPECT_NEAR(cluster.anchor[i], anchor[i], 1e-4);
  }
}

}  // namespace
}  // namespace shoal::outer_opt
