// The arithmetic against the replicated outer step, what is kept where, and rounds of real sessions
// with members that come and go, compared bit for bit with one that keeps all momentum.
#include "outer_opt/core/momentum_shards.h"

#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "outer_opt/core/codec.h"
#include "outer_opt/core/nesterov.h"
#include "outer_opt/core/session_swarm.h"

namespace shoal::outer_opt {
namespace {

using Ranges = std::vector<ValueRange>;

// Powers of two, so that every result but the last quotient is exact, and that one is a whole.
TEST(MomentumShards, StepAndMomentumOfSmallNumbers) {
  const OuterSpec outer{0.5, 0.5};
  std::vector<float> momentum{2, 0}, step{4, -8};
  owner_step(outer, momentum, step);
  EXPECT_EQ(step, (std::vector<float>{3.25, -6}));
  follow_step(outer, step, momentum);
  EXPECT_EQ(momentum, (std::vector<float>{5, -8}));
  std::vector<float> anchor{100, 100};
  apply_step(step, anchor);
  EXPECT_EQ(anchor, (std::vector<float>{96.75, 106}));
}

TEST(MomentumShards, WithoutCodecItIsTheReplicatedOuterStep) {
  Prng prng(3);
  const OuterSpec outer{0.7, 0.9};
  std::vector<float> theta(64, 1.0f), whole(64), anchor(64, 1.0f), shard(64);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> average;
    for (int i = 0; i < 64; ++i) average.push_back(static_cast<float>(prng.normal()));
    nesterov_step(outer, average, whole, theta);
    owner_step(outer, shard, average);
    follow_step(outer, average, shard);
    apply_step(average, anchor);
  }
  for (int i = 0; i < 64; ++i) {
    EXPECT_NEAR(shard[i], whole[i], 1e-5);
    EXPECT_NEAR(anchor[i], theta[i], 1e-3);
  }
}

// Of a bowl whose gradient is the position, seen with noise: with every codec the steps stay as
// large as without one, and so does where they end.
TEST(MomentumShards, StableWithEveryCodec) {
  constexpr std::size_t kValues = 1024;
  const OuterSpec outer{0.7, 0.9};
  std::map<CodecKind, double> ends;
  for (const CodecKind kind : kDenseCodecs) {
    Prng prng(5);
    const Codec& c = codec(kind);
    std::vector<std::byte> bytes(c.encoded_size(kValues));
    std::vector<float> anchor(kValues, 1.0f), momentum(kValues), step(kValues);
    for (int round = 0; round < 1000; ++round) {
      for (std::size_t i = 0; i < kValues; ++i) {
        const auto noise = static_cast<float>(0.2 * prng.normal());
        step[i] = 0.05f * (anchor[i] + noise);
      }
      owner_step(outer, momentum, step);
      c.encode(step, bytes);
      ASSERT_TRUE(c.decode(bytes, step).ok());
      follow_step(outer, step, momentum);
      apply_step(step, anchor);
    }
    double square = 0;
    for (const float value : anchor) square += static_cast<double>(value) * value;
    ends[kind] = std::sqrt(square / kValues);
  }
  for (const auto& [kind, end] : ends) {
    EXPECT_LT(end, 1.5 * ends.at(CodecKind::kFp32)) << to_string(kind);
  }
}

TEST(MomentumShards, EachOwnerKeepsItsPartAndTheOneBefore) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 12, {1, 1, 1, 1}, {1, 0, 1, 1});
  const auto kept = [&](int member) {
    return kept_ranges(plan.members, plan.members[member].replica);
  };
  EXPECT_EQ(kept(0), (Ranges{{0, 4}, {8, 4}}));
  EXPECT_EQ(kept(1), Ranges{});
  EXPECT_EQ(kept(2), (Ranges{{0, 4}, {4, 4}}));
  EXPECT_EQ(kept(3), (Ranges{{4, 4}, {8, 4}}));
  EXPECT_EQ(kept_ranges(plan.members, ReplicaId(99)), Ranges{});
  plan = make_plan(CodecKind::kFp32, 12, {1});
  EXPECT_EQ(kept(0), (Ranges{{0, 12}}));
}

TEST(MomentumShards, RestagesFromItselfThenFromOthersThenFromNothing) {
  const ReplicaId self(1), other(2), third(3);
  MomentumShards held(Ranges{{0, 4}});
  std::iota(held.at({0, 4}).begin(), held.at({0, 4}).end(), 1.0f);
  const std::vector<MomentumHolder> holders{
      {other, "b:1", 0, 6}, {self, "a:1", 0, 4}, {third, "c:1", 4, 3}};
  const auto made = restage({{2, 8}}, self, holders, held);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->missing,
            (std::vector<MomentumHolder>{{other, "b:1", 4, 2}, {third, "c:1", 6, 1}}));
  const auto values = made->shards.at({2, 8});
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{3, 4, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(values_without_holder(10, holders), 3);
  EXPECT_EQ(values_without_holder(7, holders), 0);
  EXPECT_FALSE(restage({{2, 8}}, self, holders, MomentumShards(Ranges{{3, 3}})).ok());
}

TEST(MomentumShards, MostMissing) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 12, {1, 1, 1});
  EXPECT_EQ(most_missing(plan), 0);
  plan.owner_step.emplace();
  EXPECT_EQ(most_missing(plan), 0);  // all start from zero
  for (const ReduceMember& member : plan.members) {
    for (const ValueRange& range : kept_ranges(plan.members, member.replica)) {
      plan.owner_step->holders.push_back({member.replica, "host:1", range.first, range.count});
    }
  }
  EXPECT_EQ(most_missing(plan), 0);
  plan.members[1].replica = ReplicaId(77);  // a joiner in the place of the one who left
  EXPECT_EQ(most_missing(plan), 8);
}

TEST(MomentumShards, PlansThatDoNotFitAreRefused) {
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
      shards.follow(plan.owner_step->outer, step);
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

TEST(ShardedRounds, NeighboursThatLeaveTogetherTakeTheirPartWithThem) {
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
