// The division of agents over the stages they hold, and assignments that use it, against the best
// of all.
#include "swarm/core/plan/sharing.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "swarm/core/plan/assignment_test_util.h"

namespace shoal::swarm {
namespace {

std::vector<Placement> placements_of(const std::vector<unsigned>& holds, std::int32_t stages) {
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < holds.size(); ++i) {
    for (StageIndex s = 0; s < stages; ++s) {
      if ((holds[i] >> s & 1u) != 0) placements.push_back({static_cast<std::int32_t>(i), s, 0});
    }
  }
  return placements;
}

std::vector<StageNeed> random_stages(Prng& prng, std::size_t count) {
  std::vector<StageNeed> stages;
  for (std::size_t s = 0; s < count; ++s) {
    stages.push_back({1 + static_cast<double>(prng.below(4)), Bytes(1)});
  }
  return stages;
}

std::vector<double> random_speeds(Prng& prng, std::size_t count) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < count; ++i) speeds.push_back(std::exp(prng.normal()));
  return speeds;
}

TEST(LevelShares, EqualsTheBestDivision) {
  Prng prng(11);
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t count = 1 + prng.below(12), size = 2 + prng.below(3);
    const auto speeds = random_speeds(prng, count);
    const auto stages = random_stages(prng, size);
    std::vector<unsigned> holds;
    for (std::size_t i = 0; i < count; ++i) {
      holds.push_back(1 + static_cast<unsigned>(prng.below((1u << size) - 1)));
    }
    auto placements = placements_of(holds, static_cast<std::int32_t>(size));
    const auto capacity = level_shares(speeds, stages, placements);
    const double best = best_division(speeds, stages, holds);
    EXPECT_NEAR(*std::min_element(capacity.begin(), capacity.end()), best, 1e-3 * best + 1e-12);
    std::vector<double> given(count, 0);
    for (const Placement& p : placements) {
      EXPECT_GE(p.share, 0);
      given[static_cast<std::size_t>(p.agent)] += p.share;
    }
    for (const double sum : given) EXPECT_NEAR(sum, 1, 1e-9);
  }
}

TEST(LevelShares, FollowTheWork) {
  std::vector<Placement> placements = {{0, 0, 0}, {0, 1, 0}};
  const auto capacity = level_shares({6}, {{1, Bytes(1)}, {2, Bytes(1)}}, placements);
  EXPECT_DOUBLE_EQ(placements[0].share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(capacity[0], 2);
  EXPECT_DOUBLE_EQ(capacity[1], 2);
}

TEST(AssignmentWithSharing, NearTheBestOfAllAssignments) {
  Prng prng(13);
  double sum = 0, worst = 1;
  int trials = 0, best = 0;
  for (std::size_t count = 2; count <= 5; ++count) {
    for (int repeat = 0; repeat < 12; ++repeat, ++trials) {
      std::vector<AssignableAgent> agents;
      for (const double speed : random_speeds(prng, count)) {
        agents.push_back({AgentId(agents.size() + 1), speed, Bytes(2)});
      }
      const auto stages = random_stages(prng, 3);
      const auto result = assign_agents(agents, stages, {});
      ASSERT_TRUE(result.ok());
      const double ratio = result.throughput / BestAssignment(agents, stages, {}).throughput();
      EXPECT_LE(ratio, 1 + 1e-3);
      sum += ratio;
      worst = std::min(worst, ratio);
      best += ratio > 1 - 1e-3;
    }
  }
  EXPECT_GE(sum / trials, 0.965);
  EXPECT_GE(worst, 0.74);
  EXPECT_GE(best, 31) << "of " << trials << " are the best of all";
}

TEST(AssignmentWithSharing, ReachesTheBoundWhenMemoryAllows) {
  Prng prng(17);
  for (std::size_t count = 1; count <= 12; ++count) {
    std::vector<AssignableAgent> agents;
    for (const double speed : random_speeds(prng, count)) {
      agents.push_back({AgentId(agents.size() + 1), speed, Bytes(100)});
    }
    const auto result = assign_agents(agents, random_stages(prng, 3), {});
    ASSERT_TRUE(result.ok());
    EXPECT_GE(result.throughput, result.bound / 1.25 * (1 - 1e-3)) << count << " agents";
  }
}

std::int32_t held_by(const AssignmentResult& result, std::int32_t agent) {
  return static_cast<std::int32_t>(
      std::count_if(result.placements.begin(), result.placements.end(),
                    [&](const Placement& p) { return p.agent == agent; }));
}

TEST(AssignmentWithSharing, MoreStagesThanAgents) {
  const std::vector<StageNeed> stages(3, {1, Bytes(4)});
  const std::vector<AssignableAgent> agents = {{AgentId(1), 1, Bytes(4)},
                                               {AgentId(2), 4, Bytes(8)}};
  const auto result = assign_agents(agents, stages, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(held_by(result, 0), 1);
  EXPECT_EQ(held_by(result, 1), 2);
  EXPECT_NEAR(result.throughput, 1, 1e-6);
}

TEST(AssignmentWithSharing, OnlyWhenItPays) {
  // Two stages: five equal agents win a quarter, seven a sixth.
  const std::vector<StageNeed> stages(2, {1, Bytes(1)});
  const auto with = [&](std::size_t count) {
    std::vector<AssignableAgent> agents(count, {AgentId(1), 1, Bytes(2)});
    return assign_agents(agents, stages, {});
  };
  EXPECT_NEAR(with(5).throughput, 2.5, 1e-6);
  EXPECT_EQ(with(5).placements.size(), 6u);
  EXPECT_DOUBLE_EQ(with(7).throughput, 3);
  EXPECT_EQ(with(7).placements.size(), 7u);
  EXPECT_EQ(with(4).placements.size(), 4u);
  // The bound is far, but memory leaves 11 / 3 of it: two ninths above whole agents.
  const std::vector<AssignableAgent> agents = {
      {AgentId(1), 5, Bytes(1)}, {AgentId(2), 5, Bytes(4)}, {AgentId(3), 6, Bytes(4)}};
  const auto result = assign_agents(agents, {{2, Bytes(2)}, {1, Bytes(2)}}, {});
  EXPECT_DOUBLE_EQ(result.throughput, 3);
  EXPECT_EQ(result.placements.size(), 2u);
}

TEST(AssignmentWithSharing, AFullStageTakesNobody) {
  const std::vector<StageNeed> stages(2, {1, Bytes(1)});
  for (const std::int32_t most : {1, 2, 3}) {
    const std::vector<AssignableAgent> agents(5, {AgentId(1), 1, Bytes(2)});
    const auto result = assign_agents(agents, stages, {.max_replicas = most});
    std::vector<std::int32_t> count(2, 0);
    for (const Placement& p : result.placements) ++count[p.stage];
    EXPECT_EQ(count, std::vector(2, most));
  }
}

TEST(AssignmentWithSharing, ItsFiguresAreThoseOfItsPlacements) {
  Prng prng(29);
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<AssignableAgent> agents;
    for (std::uint64_t n = 1 + prng.below(5); n > 0; --n) {
      agents.push_back({AgentId(n), 1 + static_cast<double>(prng.below(12)),
                        Bytes(static_cast<std::int64_t>(1 + prng.below(4)))});
    }
    auto stages = random_stages(prng, 2 + prng.below(2));
    stages.front().memory = Bytes(2);
    const auto result = assign_agents(agents, stages, {});
    if (!result.ok()) continue;
    std::vector<double> speeds;
    for (const AssignableAgent& agent : agents) speeds.push_back(agent.speed);
    auto placements = result.placements;
    const auto capacity = level_shares(speeds, stages, placements);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      EXPECT_NEAR(result.capacity[s], capacity[s], 1e-3 * capacity[s]);
    }
    EXPECT_EQ(result.throughput, *std::min_element(result.capacity.begin(), result.capacity.end()));
    EXPECT_LE(result.throughput, result.bound * (1 + 1e-9));
  }
}

TEST(AssignmentWithSharing, AStageIsNeverTwiceOnOneAgent) {
  const std::vector<StageNeed> stages(2, {1, Bytes(1)});
  const std::vector<AssignableAgent> one = {{AgentId(1), 1, Bytes(100)}};
  const auto refused = assign_agents(one, stages, {.min_replicas = 2});
  EXPECT_EQ(refused.reason, AssignmentReason::kMemoryTooSmall);
  const std::vector<AssignableAgent> two(2, one[0]);
  const auto result = assign_agents(two, stages, {.min_replicas = 2});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.placements.size(), 4u);
}

TEST(AssignmentWithSharing, MemoryIsTheSumOfTheStages) {
  Prng prng(19);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<AssignableAgent> agents;
    for (const double speed : random_speeds(prng, 1 + prng.below(12))) {
      agents.push_back({AgentId(agents.size() + 1), speed,
                        Bytes(static_cast<std::int64_t>(1 + prng.below(12)))});
    }
    std::vector<StageNeed> stages = random_stages(prng, 2 + prng.below(4));
    for (StageNeed& stage : stages)
      stage.memory = Bytes(static_cast<std::int64_t>(1 + prng.below(5)));
    const auto result = assign_agents(agents, stages, {});
    std::vector<Bytes> used(agents.size());
    for (const Placement& p : result.placements) {
      used[static_cast<std::size_t>(p.agent)] += stages[static_cast<std::size_t>(p.stage)].memory;
    }
    for (std::size_t i = 0; i < agents.size(); ++i) EXPECT_LE(used[i], agents[i].memory);
  }
}

}  // namespace
}  // namespace shoal::swarm
