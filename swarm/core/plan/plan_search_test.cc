// Plans of random clusters beside the best that another search finds.
#include "swarm/core/plan/plan_search.h"

#include <gmock/gmock.h>

#include "swarm/core/plan/random_clusters.h"
#include "swarm/core/plan/small_model_test_util.h"

namespace shoal::swarm {
namespace {

TEST(PlanSearch, UnequalAgentsGetUnequalStages) {
  const CostModel model(spec_of(8), {});
  PlanRequest request;
  request.agents = {{AgentId(1), 6e9, kPlenty}, {AgentId(2), 2e9, kPlenty}};
  request.stages = 2;
  request.assignment.several_stages_per_agent = false;
  const StagePlan plan = plan_stages(model, request);
  ASSERT_TRUE(plan.ok());
  const std::size_t big = plan.assignment.placements[0].agent == 0 ? 0 : 1;
  EXPECT_GT(model.flops(plan.stages[big]), 2 * model.flops(plan.stages[1 - big]));
}

TEST(PlanSearch, MovesNoStageIntoOneFailureDomain) {
  Prng prng(5);
  for (int trial = 0; trial < 50; ++trial) {
    const CostModel model(spec_of(6), {});
    PlanRequest request = random_request(prng);
    for (std::size_t i = 0; i < request.agents.size(); ++i) {
      request.agents[i].domain = i % 2 == 0 ? "eu" : "us";
      request.agents[i].memory = kPlenty;
    }
    request.assignment.several_stages_per_agent = false;
    StagePlan plan = plan_stages(model, request);
    if (!plan.ok() || plan.stages.size() < 2) continue;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      std::vector<std::string> domains;
      for (const Placement& p : plan.assignment.placements) {
        if (p.stage == static_cast<StageIndex>(s))
          domains.push_back(request.agents[p.agent].domain);
      }
      if (domains.size() > 1 && plan.assignment.stages_in_one_domain == 0) {
        EXPECT_THAT(domains, testing::Contains("eu"));
        EXPECT_THAT(domains, testing::Contains("us"));
      }
    }
  }
}

TEST(PlanSearch, RandomClustersArePlannedNearTheBest) {
  Prng prng(11);
  int planned = 0;
  double worst = 1;
  for (int trial = 0; trial < 40; ++trial) {
    const CostModel model = random_model(prng);
    const PlanRequest request = random_request(prng);
    const StagePlan plan = plan_stages(model, request);
    const double best = annealed_best(model, request, prng, 4000);
    ASSERT_EQ(plan.ok(), best > 0 || plan.ok());
    if (!plan.ok()) continue;
    ++planned;
    worst = std::min(worst, plan.throughput.tokens_per_s / std::max(best, 1e-9));
    EXPECT_GE(plan.throughput.tokens_per_s, 0.95 * best)
        << "cluster " << trial << " of " << request.agents.size() << ", " << plan.stages.size()
        << " stages of " << model.blocks() << " blocks";
  }
  EXPECT_GE(planned, 30);
  RecordProperty("worst", std::to_string(worst));
}

}  // namespace
}  // namespace shoal::swarm
