#include "swarm/core/plan/assignment.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "swarm/core/plan/assignment_test_util.h"

namespace shoal::swarm {
namespace {

std::vector<StageNeed> stages_of(std::int32_t count, Bytes memory = Bytes(1)) {
  return std::vector<StageNeed>(count, StageNeed{1, memory});
}

std::vector<AssignableAgent> random_agents(Prng& prng, std::int32_t count, double sigma) {
  std::vector<AssignableAgent> agents;
  for (std::int32_t i = 0; i < count; ++i) {
    agents.push_back({AgentId(i + 1), std::exp(sigma * prng.normal()), Bytes(1)});
  }
  return agents;
}

TEST(Assignment, NearTheBestOfAllAssignments) {
  Prng prng(3);
  double sum = 0, worst = 1;
  int trials = 0, best = 0;
  for (std::int32_t count = 6; count <= 12; ++count) {
    for (int repeat = 0; repeat < 6; ++repeat, ++trials) {
      const std::int32_t stages = count <= 10 ? 3 : 2;
      const auto agents = random_agents(prng, count, 0.6);
      const AssignmentOptions whole{.several_stages_per_agent = false};
      const auto needs = stages_of(stages);
      const auto result = assign_agents(agents, needs, whole);
      ASSERT_TRUE(result.ok());
      const double ratio = result.throughput / BestAssignment(agents, needs, whole).throughput();
      sum += ratio;
      worst = std::min(worst, ratio);
      best += ratio > 1 - 1e-9;
    }
  }
  EXPECT_GE(sum / trials, 0.995);
  EXPECT_GE(worst, 0.96);
  EXPECT_GE(best, 18) << "of " << trials << " are the best of all";
}

TEST(Assignment, ReachesTheBoundWithManyAgents) {
  Prng prng(5);
  const auto agents = random_agents(prng, 128, 0.8);
  const auto result = assign_agents(agents, stages_of(8), {.several_stages_per_agent = false});
  EXPECT_GE(result.throughput, 0.99 * result.bound * 1);
  EXPECT_EQ(result.placements.size(), agents.size());
}

TEST(Assignment, BigAgentHoldsSeveralStages) {
  std::vector<AssignableAgent> agents = {{AgentId(1), 8, Bytes(10)}};
  for (int i = 0; i < 4; ++i) agents.push_back({AgentId(i + 2), 1, Bytes(10)});
  const auto result = assign_agents(agents, stages_of(4, Bytes(4)), {});
  ASSERT_TRUE(result.ok());
  const auto hosted = std::count_if(result.placements.begin(), result.placements.end(),
                                    [](const Placement& p) { return p.agent == 0; });
  EXPECT_EQ(hosted, 2);  // memory for two
  const auto alone =
      assign_agents(agents, stages_of(4, Bytes(4)), {.several_stages_per_agent = false});
  EXPECT_GT(result.throughput, alone.throughput);
}

TEST(Assignment, SharesOfAnAgentAddUpToOne) {
  std::vector<AssignableAgent> agents = {{AgentId(1), 9, Bytes(100)}, {AgentId(2), 3, Bytes(100)}};
  const auto result = assign_agents(agents, stages_of(4), {});
  ASSERT_TRUE(result.ok());
  std::vector<double> shares(2, 0);
  for (const Placement& p : result.placements) shares[p.agent] += p.share;
  EXPECT_DOUBLE_EQ(shares[0], 1);
  EXPECT_DOUBLE_EQ(shares[1], 1);
  EXPECT_NEAR(result.throughput, result.bound, 1e-9);
}

TEST(Assignment, KeepsMinReplicasAndMemory) {
  std::vector<AssignableAgent> agents;
  for (int i = 0; i < 6; ++i) {
    agents.push_back({AgentId(i + 1), i == 0 ? 10.0 : 1.0, Bytes(i < 3 ? 8 : 2)});
  }
  const std::vector<StageNeed> stages = {{1, Bytes(8)}, {1, Bytes(2)}};
  const auto result =
      assign_agents(agents, stages, {.min_replicas = 3, .several_stages_per_agent = false});
  ASSERT_TRUE(result.ok());
  std::vector<int> count(2, 0);
  for (const Placement& p : result.placements) {
    ++count[p.stage];
    EXPECT_GE(agents[p.agent].memory, stages[p.stage].memory);
  }
  EXPECT_EQ(count, (std::vector<int>{3, 3}));
}

TEST(Assignment, LeavesTheSlowestOverBeyondMaxReplicas) {
  std::vector<AssignableAgent> agents;
  for (std::uint64_t n = 1; n <= 7; ++n) {
    agents.push_back({AgentId(n), static_cast<double>(n), Bytes(1)});
  }
  const auto result =
      assign_agents(agents, stages_of(2), {.max_replicas = 2, .several_stages_per_agent = false});
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result.placements.size(), 4u);
  for (const Placement& placement : result.placements) EXPECT_GE(placement.agent, 3);
  EXPECT_DOUBLE_EQ(result.throughput, 11);  // 7 + 4 and 6 + 5
}

std::vector<std::set<std::string>> domains_of(const AssignmentResult& result,
                                              const std::vector<AssignableAgent>& agents) {
  std::vector<std::set<std::string>> domains(result.capacity.size());
  for (const Placement& p : result.placements) domains[p.stage].insert(agents[p.agent].domain);
  return domains;
}

TEST(Assignment, SpreadsFailureDomains) {
  std::vector<AssignableAgent> agents;
  for (int i = 0; i < 4; ++i) {
    // Longest-first alone would put both of each region together.
    agents.push_back({AgentId(i + 1), i == 0 || i == 3 ? 1.0 : 0.9, Bytes(1), i < 2 ? "a" : "b"});
  }
  const auto result = assign_agents(agents, stages_of(2), {.min_replicas = 2});
  ASSERT_TRUE(result.ok());
  for (const auto& domains : domains_of(result, agents)) EXPECT_EQ(domains.size(), 2u);
  EXPECT_EQ(result.stages_in_one_domain, 0);
}

TEST(Assignment, CountsTheStagesThatCannotBeSpread) {
  std::vector<AssignableAgent> agents(4, {AgentId(1), 1, Bytes(1), "a"});
  const auto in_one = [&](const AssignmentOptions& options) {
    return assign_agents(agents, stages_of(2), options).stages_in_one_domain;
  };
  EXPECT_EQ(in_one({.min_replicas = 2}), 2) << "there is nobody of another domain";
  EXPECT_EQ(in_one({.max_replicas = 1}), 0) << "one replica is alone in any case";
  agents[3].domain = "b";
  EXPECT_EQ(in_one({.min_replicas = 2}), 1);
  for (AssignableAgent& agent : agents) agent.domain.clear();
  EXPECT_EQ(in_one({.min_replicas = 2}), 0) << "each is a domain of its own";
}

// The one of another domain is too small for the stage that needs it, or its own stage too large
// for who would come in exchange.
TEST(Assignment, SpreadsOnlyWhereTheMemoryAllows) {
  const std::vector<StageNeed> stages = {{1, Bytes(2)}, {1, Bytes(1)}};
  std::vector<AssignableAgent> agents = {{AgentId(1), 1, Bytes(2), "a"},
                                         {AgentId(2), 1, Bytes(2), "a"},
                                         {AgentId(3), 1, Bytes(1), "b"},
                                         {AgentId(4), 1, Bytes(1), "b"}};
  const AssignmentOptions whole{.min_replicas = 2, .several_stages_per_agent = false};
  EXPECT_EQ(assign_agents(agents, stages, whole).stages_in_one_domain, 2);
  agents[2].memory = Bytes(2);
  const auto result = assign_agents(agents, stages, whole);
  ASSERT_TRUE(result.ok());
  for (const auto& domains : domains_of(result, agents)) EXPECT_EQ(domains.size(), 2u);
}

TEST(Assignment, SaysWhyNot) {
  EXPECT_EQ(assign_agents({}, stages_of(2), {}).reason, AssignmentReason::kNoAgents);
  const std::vector<AssignableAgent> one = {{AgentId(1), 1, Bytes(5)}};
  const auto small = assign_agents(one, stages_of(1, Bytes(6)), {});
  EXPECT_EQ(small.reason, AssignmentReason::kMemoryTooSmall);
  EXPECT_EQ(small.stage, 0);
  const auto few = assign_agents(one, stages_of(2, Bytes(4)), {});
  EXPECT_EQ(few.reason, AssignmentReason::kTooFewAgents);
  EXPECT_EQ(few.replicas_missing, 1);
}

}  // namespace
}  // namespace shoal::swarm
