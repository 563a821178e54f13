// Rounds in groups (groups.h), driven through the real sessions: each group of a round is a
// butterfly of its own.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/reduce/session_test_util.h"
#include "outer_opt/core/round/groups.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kValues = 24;

struct Replica {
  std::vector<float> anchor, delta, pseudo_gradient;
};

std::vector<Replica> replicas_of(std::size_t count, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<Replica> all(count);
  for (Replica& replica : all) {
    replica.delta.assign(kValues, 0.0f);
    replica.pseudo_gradient.assign(kValues, 0.0f);
    for (std::size_t i = 0; i < kValues; ++i) {
      replica.anchor.push_back(static_cast<float>(prng.normal()));
    }
  }
  return all;
}

// Variance of the anchors around their mean, per value and replica.
double variance(const std::vector<Replica>& all) {
  double sum = 0;
  for (std::size_t v = 0; v < kValues; ++v) {
    double mean = 0, square = 0;
    for (const Replica& r : all) mean += static_cast<double>(r.anchor[v]);
    mean /= static_cast<double>(all.size());
    for (const Replica& r : all) square += std::pow(static_cast<double>(r.anchor[v]) - mean, 2);
    sum += square / static_cast<double>(all.size());
  }
  return sum / static_cast<double>(kValues);
}

// The groups of one round: a reduce each, then the step. When `victim`
// is killed after `boundary` hops its group keeps what it had. Returns how many groups stepped.
int run_round(std::vector<Replica>& all, const std::vector<Group>& groups, const GroupStep& step,
              std::optional<std::size_t> victim = {}, int boundary = 0) {
  int stepped = 0;
  for (const Group& group : groups) {
    if (group.size() < 2) continue;
    const ReducePlan plan =
        make_plan(CodecKind::kFp32, kValues, std::vector<double>(group.size(), 1.0));
    std::vector<std::vector<float>> inputs;
    for (const std::size_t member : group) {
      inputs.push_back(all[member].pseudo_gradient);
      make_group_input(step, all[member].anchor, inputs.back());
    }
    SessionSwarm swarm(plan, 8, inputs);
    Prng prng(1);
    const auto hit = victim ? std::find(group.begin(), group.end(), *victim) : group.end();
    if (hit != group.end()) {
      swarm.run(prng, boundary);
      swarm.kill(static_cast<int>(hit - group.begin()));
    }
    swarm.run(prng);
    if (hit != group.end()) continue;  // without a vote of all there is no commit
    expect_all_done_and_equal(swarm);
    ++stepped;
    for (std::size_t i = 0; i < group.size(); ++i) {
      Replica& replica = all[group[i]];
      group_step(step, swarm.averages[i], replica.delta, replica.anchor);
    }
  }
  return stepped;
}

// Three members, of which the last is clipped to a quarter; two own a part each.
TEST(GroupRounds, TheOwnerOfAPartPullsAClippedMemberTowardsItsAnchor) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 4, {1, 1, 1});
  plan.members[2].clip_factor = 0.25;
  assign_parts(plan, {1, 1, 0});
  const std::vector<std::vector<float>> sent{{3, 3, 3, 3}, {6, 6, 6, 6}, {13, 13, 13, 13}};
  const std::vector<std::vector<float>> anchors{{1, 1, 1, 1}, {5, 5, 5, 5}, {9, 9, 9, 9}};
  SessionSwarm swarm(plan, 8, sent, {}, {}, anchors);
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  // 1 + (13 - 1) / 4 = 4 and 5 + (13 - 5) / 4 = 7 count for the third.
  const float first = (3 + 6 + 4) * (1.0f / 3), second = (3 + 6 + 7) * (1.0f / 3);
  EXPECT_EQ(swarm.averages[2], (std::vector<float>{first, first, second, second}));
}

TEST(GroupRounds, WithoutAClippedMemberNoBitDependsOnAnchors) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, kValues, {1, 1, 1});
  const auto inputs = random_inputs(plan, 3);
  SessionSwarm with(plan, 8, inputs, {}, {}, random_inputs(plan, 4)), without(plan, 8, inputs);
  Prng prng(1);
  with.run(prng), without.run(prng);
  EXPECT_EQ(with.averages, without.averages);
}

TEST(Moshpit, ASquareIsExactAfterTwoRounds) {
  auto all = replicas_of(16, 3);
  const double before = variance(all);
  for (RoundNumber round = 1; round <= 2; ++round) {
    EXPECT_EQ(run_round(all, moshpit_groups(16, round), {0, 0, 1}), 4);
  }
  EXPECT_LT(variance(all), 1e-12 * before);
}

TEST(Moshpit, AKilledMemberCostsItsGroupOnly) {
  const auto groups = moshpit_groups(9, 0);
  for (std::size_t victim = 0; victim < 9; ++victim) {
    for (int boundary = 0; boundary < 60; boundary += 7) {
      auto all = replicas_of(9, 4);
      const auto before = all;
      EXPECT_EQ(run_round(all, groups, {0, 0, 1}, victim, boundary), 2);
      for (std::size_t i = 0; i < 9; ++i) {
        EXPECT_EQ(all[i].anchor == before[i].anchor, i / 3 == victim / 3);
      }
    }
  }
}

// Theory: each random pairing takes the variance to (n/2 - 1) / (n - 1) of what it was.
TEST(Gossip, DifferencesHalveInARound) {
  auto all = replicas_of(32, 5);
  const double before = variance(all);
  constexpr int kRounds = 12;
  for (RoundNumber round = 1; round <= kRounds; ++round) {
    run_round(all, gossip_groups(32, 9, round), {0, 0, 1});
  }
  const double per_round = std::pow(variance(all) / before, 1.0 / kRounds);
  EXPECT_GT(per_round, 0.40);
  EXPECT_LT(per_round, 0.57);
}

// What docs and validation say of momentum, over 200 rounds without training.
TEST(GroupStep, RandomPairsNeedLessMomentumThanAGrid) {
  const auto spread_after = [](Topology topology, double momentum) {
    JobSpec spec;
    spec.sync.topology = topology;
    auto all = replicas_of(9, 8);
    const double before = variance(all);
    for (RoundNumber round = 1; round <= 200; ++round) {
      run_round(all, groups_of(spec, 9, round), {0.7, momentum, 1});
    }
    return variance(all) / before;
  };
  EXPECT_LT(spread_after(Topology::kGossip, 0.5), 1e-6);
  EXPECT_GT(spread_after(Topology::kGossip, 0.9), 1e3);
  EXPECT_LT(spread_after(Topology::kMoshpit, 0.9), 1e-6);
}

// With momentum and a common pull downhill the replicas stay together and get there.
TEST(GroupStep, GossipDescendsTogether) {
  auto all = replicas_of(9, 6);
  for (RoundNumber round = 1; round <= 60; ++round) {
    for (Replica& replica : all) {
      for (std::size_t v = 0; v < kValues; ++v) {
        replica.pseudo_gradient[v] = 0.1f * (replica.anchor[v] - 5.0f);
      }
    }
    run_round(all, gossip_groups(9, 2, round), {0.7, 0.5, 1});
  }
  EXPECT_LT(variance(all), 1e-3);
  for (const Replica& replica : all) EXPECT_NEAR(replica.anchor[0], 5.0, 0.1);
}

}  // namespace
}  // namespace shoal::outer_opt
