// The passes of the assignment, one small case for each: with all of them the result is the best
// that exists, which the test finds by trying everything; without the pass it would be worse. The
// numbers are small, so that a case can be followed on paper.
#include <gtest/gtest.h>

#include "swarm/core/plan/assignment_test_util.h"

namespace shoal::swarm {
namespace {

struct Numbers {
  double speed_or_work;
  std::int64_t memory;
};
struct Case {
  const char* pass;
  std::int32_t min_replicas;
  std::vector<Numbers> agents, stages;
};

void expect_best(const Case& one, bool several_stages_per_agent) {
  SCOPED_TRACE(one.pass);
  std::vector<AssignableAgent> agents;
  for (const Numbers& n : one.agents)
    agents.push_back({AgentId(agents.size() + 1), n.speed_or_work, Bytes(n.memory)});
  std::vector<StageNeed> stages;
  for (const Numbers& n : one.stages) stages.push_back({n.speed_or_work, Bytes(n.memory)});
  AssignmentOptions options;
  options.min_replicas = one.min_replicas;
  options.several_stages_per_agent = several_stages_per_agent;
  const double best = BestAssignment(agents, stages, options).throughput();
  const AssignmentResult result = assign_agents(agents, stages, options);
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result.throughput, best, 1e-5 * best);
}

TEST(AssignmentPasses, EachIsNeededWithWholeAgents) {
  const std::vector<Case> cases = {
      {"longest first", 1, {{1, 1}, {3, 1}, {1, 1}}, {{4, 1}, {3, 1}}},
      {"of equal stages the one with fewer replicas",
       1,
       {{6, 1}, {3, 1}, {4, 1}, {3, 1}, {2, 1}},
       {{3, 1}, {1, 1}}},
      {"a stage that nobody took", 1, {{1, 2}, {1, 1}}, {{1, 1}, {1, 2}}},
      {"the slowest is spared",
       2,
       {{2, 3}, {8, 2}, {3, 2}, {3, 2}, {1, 2}, {1, 3}, {1, 3}},
       {{3, 3}, {2, 1}, {3, 2}}},
      {"a move", 1, {{1, 3}, {5, 3}, {3, 2}}, {{1, 1}, {3, 3}}},
      {"a swap", 1, {{2, 1}, {5, 1}, {1, 1}}, {{1, 1}, {4, 1}}},
      {"unequal work counts in a swap",
       1,
       {{2, 4}, {1, 3}, {3, 4}, {12, 3}, {6, 1}},
       {{1, 1}, {2, 2}}},
      {"a swap against the next slower one",
       1,
       {{8, 3}, {5, 3}, {1, 1}, {3, 1}, {2, 3}},
       {{1, 1}, {2, 3}}},
      {"a swap against the next faster one",
       1,
       {{6, 3}, {2, 3}, {3, 2}, {2, 1}, {6, 1}, {1, 3}},
       {{1, 1}, {1, 2}}},
      {"the best change, not the first",
       1,
       {{6, 3}, {2, 3}, {4, 2}, {5, 3}, {5, 3}, {5, 2}, {6, 2}},
       {{4, 3}, {4, 1}, {4, 1}}},
      {"one change after another",
       1,
       {{2, 2}, {4, 2}, {3, 3}, {6, 3}, {5, 3}},
       {{1, 2}, {1, 1}, {1, 3}}},
  };
  for (const Case& one : cases) expect_best(one, false);
}

TEST(AssignmentPasses, EachIsNeededWithAgentsThatHoldSeveralStages) {
  const std::vector<Case> cases = {
      {"longest first", 1, {{1, 3}, {3, 3}}, {{3, 1}, {4, 1}, {4, 1}}},
      {"the fast one is split at once", 1, {{3, 2}, {2, 1}}, {{1, 1}, {3, 1}}},
      {"split up to what a stage lacks",
       1,
       {{6, 3}, {5, 3}, {3, 3}, {1, 3}},
       {{1, 1}, {1, 1}, {1, 1}}},
      {"who is not too fast for a stage stays whole",
       2,
       {{1, 1}, {1, 2}, {2, 1}, {5, 4}},
       {{1, 2}, {1, 1}}},
      {"who has most to give hosts one more",
       2,
       {{1, 3}, {5, 3}, {6, 3}},
       {{2, 1}, {1, 1}, {2, 1}}},
      {"it halves what it gave to its widest",
       2,
       {{3, 2}, {2, 2}, {4, 3}, {3, 2}, {3, 2}},
       {{1, 1}, {1, 2}, {1, 1}}},
      {"one stage more", 1, {{3, 4}, {3, 1}}, {{4, 1}, {2, 2}}},
      {"another stage", 1, {{4, 1}, {3, 2}, {5, 3}}, {{1, 1}, {1, 1}, {1, 2}}},
      {"an exchange", 1, {{1, 2}, {1, 4}}, {{1, 2}, {3, 2}, {3, 2}}},
      {"the best of these, not the first", 1, {{2, 1}, {5, 2}, {8, 3}}, {{2, 1}, {1, 1}, {3, 2}}},
      {"one step after another", 1, {{6, 2}, {7, 4}}, {{3, 1}, {4, 2}, {2, 2}}},
      {"shares level in several passes", 1, {{4, 3}, {7, 3}}, {{1, 1}, {1, 1}, {1, 1}}},
      {"the weakest stage is filled first", 1, {{3, 3}, {1, 3}}, {{3, 1}, {1, 1}, {2, 1}}},
      {"up to the next stage only", 1, {{7, 3}, {2, 3}, {8, 3}}, {{3, 1}, {2, 1}, {4, 1}}},
  };
  for (const Case& one : cases) expect_best(one, true);
}

// A twentieth of an agent is not worth a process: the second stage is the slow one's.
TEST(AssignmentPasses, APartThatIsTooSmallIsGivenUp) {
  const std::vector<AssignableAgent> agents = {{AgentId(1), 1, Bytes(4)},
                                               {AgentId(2), 6, Bytes(4)}};
  const std::vector<StageNeed> stages = {{3, Bytes(2)}, {2, Bytes(1)}};
  const AssignmentResult result = assign_agents(agents, stages, {});
  ASSERT_TRUE(result.ok());
  for (const Placement& placement : result.placements) EXPECT_GE(placement.share, 0.05);
  EXPECT_EQ(result.placements.size(), 3u);
  EXPECT_NEAR(result.throughput, 7.0 / 5, 1e-6) << "the bound nevertheless";
}

}  // namespace
}  // namespace shoal::swarm
