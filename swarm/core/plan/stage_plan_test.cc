#include "swarm/core/plan/stage_plan.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::swarm {
namespace {

constexpr Bytes kPlenty{std::int64_t{1} << 60};

JobSpec spec_of(std::int64_t layers, std::int64_t vocab = 256) {
  JobSpec spec;
  spec.model = {.layers = layers, .hidden = 64, .heads = 4, .context = 32, .vocab = vocab};
  spec.train.batch = 2;
  return spec;
}

// Every cut of the blocks into so many stages.
void for_each_cut(const CostModel& model, std::int32_t stages,
                  const std::function<void(const std::vector<UnitRange>&)>& visit) {
  std::vector<UnitRange> cut;
  const std::function<void(std::int32_t)> go = [&](std::int32_t first) {
    const auto left = stages - static_cast<std::int32_t>(cut.size());
    for (std::int32_t last = first + 1; last <= model.blocks() - left + 1; ++last) {
      if (left == 1 && last != model.blocks()) continue;
      cut.push_back(
          {first == 0 ? 0 : first + 1, last == model.blocks() ? model.units() : last + 1});
      left == 1 ? visit(cut) : go(last);
      cut.pop_back();
    }
  };
  go(0);
}

double brute_force(const CostModel& model, std::int32_t stages, Bytes memory) {
  double best = std::numeric_limits<double>::infinity();
  for_each_cut(model, stages, [&](const std::vector<UnitRange>& cut) {
    double worst = 0;
    for (const UnitRange range : cut) {
      if (model.memory(range) > memory) return;
      worst = std::max(worst, model.flops(range));
    }
    best = std::min(best, worst);
  });
  return best;
}

TEST(CutStages, EqualsBruteForce) {
  for (std::int64_t vocab : {64, 256, 4000}) {
    for (std::int64_t layers = 1; layers <= 9; ++layers) {
      const CostModel model(spec_of(layers, vocab), {});
      for (std::int32_t stages = 1; stages <= layers; ++stages) {
        for (const Bytes memory :
             {kPlenty, Bytes(model.memory(model.whole()).n / stages * 3 / 2)}) {
          const auto cut = cut_stages(model, stages, memory);
          double worst = cut.empty() ? std::numeric_limits<double>::infinity() : 0;
          for (auto range : cut) worst = std::max(worst, model.flops(range));
          EXPECT_EQ(worst, brute_force(model, stages, memory));
        }
      }
    }
  }
}

TEST(CutStages, CoversTheModelInOrderAndSpreadsTheRemainder) {
  const CostModel model(spec_of(10, 4), {});
  const auto cut = cut_stages(model, 4, kPlenty);
  ASSERT_EQ(cut.size(), 4u);
  EXPECT_EQ(cut.front().first, 0);
  EXPECT_EQ(cut.back().last, model.units());
  for (std::size_t i = 1; i < cut.size(); ++i) EXPECT_EQ(cut[i].first, cut[i - 1].last);
  for (const UnitRange range : cut) EXPECT_LE(range.last - range.first, 4);
}

PlanRequest request_of(std::int32_t agents, Bytes memory) {
  PlanRequest request;
  for (std::int32_t i = 0; i < agents; ++i) request.agents.push_back({AgentId(i + 1), 1e9, memory});
  return request;
}

TEST(PlanStages, OneStageWhenTheModelFits) {
  const CostModel model(spec_of(8), {});
  const StagePlan plan = plan_stages(model, request_of(8, kPlenty));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.throughput.bubble, 0);
}

TEST(PlanStages, OneStageIsAsFastAsItsSlowestReplicaLetsItBe) {
  const CostModel model(spec_of(8), {});
  PlanRequest request = request_of(4, kPlenty);
  for (std::size_t i = 0; i < 4; ++i) request.agents[i].speed = 8e9 / (1 << i);
  request.stages = 1;
  const double work = model.flops(model.whole());
  EXPECT_DOUBLE_EQ(plan_stages(model, request).throughput.tokens_per_s, 4 * 1e9 / work);
  request.equal_steps = false;
  EXPECT_DOUBLE_EQ(plan_stages(model, request).throughput.tokens_per_s, 15e9 / work);
}

// The slowest of them would set the pace of all; in a stage of a pipeline it only adds its own.
TEST(PlanStages, UnequalReplicasAreBetterInAPipeline) {
  JobSpec spec = spec_of(6);
  spec.train.batch = 16;
  const CostModel model(spec, {});
  PlanRequest request = request_of(4, kPlenty);
  for (std::size_t i = 0; i < 4; ++i) request.agents[i].speed = 8e9 / (1 << i);
  const StagePlan plan = plan_stages(model, request);
  EXPECT_GE(plan.stages.size(), 2u);
  request.stages = 1;
  EXPECT_GT(plan.throughput.tokens_per_s, 2 * plan_stages(model, request).throughput.tokens_per_s);
  request.stages = 0;
  request.equal_steps = false;
  EXPECT_EQ(plan_stages(model, request).stages.size(), 1u);
}

// Their leaders alone would be in a pipeline, which is why that is not chosen.
TEST(PlanStages, ReplicaGroupsTrainAWholeModelTogether) {
  const CostModel model(spec_of(6), {});
  PlanRequest request = request_of(4, kPlenty);
  request.stages = 1;
  const double alone = plan_stages(model, request).throughput.tokens_per_s;
  for (AssignableAgent& agent : request.agents) agent.group = 3;
  EXPECT_DOUBLE_EQ(plan_stages(model, request).throughput.tokens_per_s, 3 * alone);
  request.stages = 2;
  const double piped = plan_stages(model, request).throughput.tokens_per_s;
  for (AssignableAgent& agent : request.agents) agent.group = 1;
  EXPECT_DOUBLE_EQ(plan_stages(model, request).throughput.tokens_per_s, piped);
}

TEST(PlanStages, CutsWhatDoesNotFit) {
  const CostModel model(spec_of(8), {});
  PlanRequest request = request_of(8, Bytes(model.memory(model.whole()).n * 4 / 10));
  const StagePlan plan = plan_stages(model, request);
  ASSERT_TRUE(plan.ok());
  EXPECT_GE(plan.stages.size(), 3u);
  for (const Bytes memory : plan.memory) EXPECT_LE(memory, request.agents[0].memory);
  EXPECT_GT(plan.throughput.bubble, 0);
}

// 20 Mbit/s carry 2,500,000 / 64 bytes: 39,062 tokens a second over one boundary. Each device
// computes some 26,000 tokens a second of the whole model.
TEST(PlanStages, SlowLinesMakeFewerStages) {
  const CostModel model(spec_of(8, 2000), {});
  PlanRequest request = request_of(8, kPlenty);
  for (std::size_t i = 0; i < 8; ++i) request.agents[i].speed = 2e12 * static_cast<double>(1 + i);
  const auto stages_at = [&](double bytes_per_s) {
    request.lines.clear();
    for (std::int32_t i = 0; i < 8; ++i) request.lines.push_back({{i}, bytes_per_s});
    const StagePlan plan = plan_stages(model, request);
    EXPECT_TRUE(plan.ok());
    return plan.stages.size();
  };
  EXPECT_LT(stages_at(20e6 / 8), stages_at(1e9 / 8));
}

// The fastest agent, on a line that carries a tenth of what it computes.
TEST(PlanStages, AnAgentBehindASlowLineIsNotAlone) {
  JobSpec spec = spec_of(4);
  spec.train.batch = 16;
  const CostModel model(spec, {});
  PlanRequest request = request_of(3, kPlenty);
  request.stages = 2;
  request.agents[0].speed = 1.4e9;
  const double fair = 1e9 / (model.flops(model.whole()) / 2);
  request.lines = {{{0}, fair / 10 * static_cast<double>(model.boundary_bytes())}};
  const StagePlan plan = plan_stages(model, request);
  ASSERT_TRUE(plan.ok());
  PlanRequest without = request;
  without.agents.erase(without.agents.begin());
  without.lines.clear();
  EXPECT_GE(plan.throughput.tokens_per_s,
            0.999 * plan_stages(model, without).throughput.tokens_per_s);
}

TEST(PlanStages, TheNumberOfStagesIsTheBestOfAll) {
  Prng prng(23);
  std::vector<int> chosen(7, 0);
  for (int trial = 0; trial < 60; ++trial) {
    const CostModel model(spec_of(6, 64 << prng.below(6)), {});
    PlanRequest request = request_of(static_cast<std::int32_t>(1 + prng.below(6)), Bytes(0));
    for (AssignableAgent& agent : request.agents) {
      agent.speed *= static_cast<double>(1 + prng.below(8));
      agent.memory =
          Bytes(model.memory(model.whole()).n * static_cast<std::int64_t>(1 + prng.below(9)) / 10);
    }
    double best = 0;
    std::size_t stages = 0;
    for (std::int32_t given = 1; given <= std::min<std::int32_t>(6, request.agents.size());
         ++given) {
      request.stages = given;
      const StagePlan plan = plan_stages(model, request);
      if (plan.ok() && plan.throughput.tokens_per_s > best)
        best = plan.throughput.tokens_per_s, stages = given;
    }
    request.stages = 0;
    const StagePlan plan = plan_stages(model, request);
    EXPECT_EQ(plan.ok(), stages > 0);
    EXPECT_GE(plan.throughput.tokens_per_s, 0.97 * best) << "which a spare replica may cost";
    ++chosen.at(plan.stages.size());
  }
  for (const std::size_t stages : {0u, 2u, 3u, 4u}) EXPECT_GE(chosen[stages], 4);  // 0: none fits
}

// Nine tenths of the speed cannot hold the model in one piece; who can is asked last.
TEST(PlanStages, AStageThatOnlyASlowAgentHoldsIsPlannedThere) {
  const CostModel model(spec_of(4), {});
  PlanRequest request = request_of(2, model.memory(model.whole()));
  request.agents[0].speed = 9e9;
  request.agents[0].memory -= Bytes(1);
  request.stages = 1;
  const StagePlan plan = plan_stages(model, request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.assignment.placements, (std::vector<Placement>{{1, 0, 1}}));
}

// The throughput of the best cut into so many stages.
double best_of_all_cuts(const CostModel& model, const PlanRequest& request) {
  double best = 0;
  for_each_cut(model, request.stages, [&](const std::vector<UnitRange>& cut) {
    std::vector<StageNeed> needs;
    for (const UnitRange range : cut) needs.push_back({model.flops(range), model.memory(range)});
    const auto placed = assign_agents(request.agents, needs, request.assignment);
    if (placed.ok()) best = std::max(best, placed.throughput);
  });
  return best;
}

// Which memory a stage may need is tried from strict to lenient. In each of these cases another
// one of the limits gives the best cut; the head of this model is larger than its blocks.
TEST(PlanStages, TheBestCutMayNeedAnyOfTheLimits) {
  struct Case {
    const char* best;
    std::int32_t stages;
    bool several;
    std::vector<std::pair<double, std::int64_t>> agents;  // speed, tenths of the model's memory
  };
  const std::vector<Case> cases = {{"nine tenths", 2, false, {{4, 6}, {5, 9}, {1, 5}}},
                                   {"three quarters", 3, true, {{4, 4}, {8, 7}, {4, 3}}},
                                   {"half", 2, true, {{3, 6}, {8, 5}, {6, 10}}},
                                   {"a quarter", 2, false, {{7, 5}, {1, 7}, {5, 6}}},
                                   {"not the first that can be placed", 2, true, {{5, 8}, {5, 6}}}};
  const CostModel model(spec_of(5, 2000), {});
  for (const Case& one : cases) {
    SCOPED_TRACE(one.best);
    PlanRequest request;
    for (const auto& [speed, tenths] : one.agents) {
      request.agents.push_back({AgentId(request.agents.size() + 1), speed * 1e9,
                                Bytes(model.memory(model.whole()).n * tenths / 10)});
    }
    request.stages = one.stages;
    request.assignment.several_stages_per_agent = one.several;
    const StagePlan plan = plan_stages(model, request);
    ASSERT_TRUE(plan.ok());
    EXPECT_NEAR(plan.assignment.throughput, best_of_all_cuts(model, request), 1e-3);
  }
}

TEST(PlanStages, SaysWhyNot) {
  const CostModel model(spec_of(4), {});
  EXPECT_EQ(plan_stages(model, {}).reason, PlanReason::kNoAgents);
  PlanRequest many = request_of(8, kPlenty);
  many.stages = 5;
  EXPECT_EQ(plan_stages(model, many).reason, PlanReason::kMoreStagesThanLayers);
  const StagePlan small = plan_stages(model, request_of(8, Bytes(1000)));
  EXPECT_EQ(small.reason, PlanReason::kStageTooLarge);
  EXPECT_EQ(small.largest, Bytes(1000));
  EXPECT_GT(small.needed, Bytes(1000));
  PlanRequest few = request_of(3, Bytes(model.memory(model.whole()).n * 6 / 10));
  few.stages = 2;
  few.assignment.min_replicas = 2;
  const StagePlan plan = plan_stages(model, few);
  EXPECT_EQ(plan.reason, PlanReason::kTooFewAgents);
  EXPECT_EQ(plan.agents_missing, 1);
  Bytes least = kPlenty;  // of all cuts, what the largest stage takes
  for_each_cut(model, 2, [&](const std::vector<UnitRange>& cut) {
    least = std::min(least, std::max(model.memory(cut[0]), model.memory(cut[1])));
  });
  EXPECT_EQ(plan.needed, least);
}

}  // namespace
}  // namespace shoal::swarm
