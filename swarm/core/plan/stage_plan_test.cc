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

// Every cut of the blocks, by recursion.
double brute_force(const CostModel& model, std::int32_t stages, const CutLimits& limits) {
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::int32_t, std::int32_t, double)> go =
      [&](std::int32_t first, std::int32_t left, double worst) {
        for (std::int32_t last = first + 1; last <= model.blocks() - left + 1; ++last) {
          if (left == 1 && last != model.blocks()) continue;
          const UnitRange range{first == 0 ? 0 : first + 1,
                                last == model.blocks() ? model.units() : last + 1};
          if (model.memory(range) > limits.memory) continue;
          const double now = std::max(worst, stage_seconds(model, range, limits));
          if (left == 1) {
            best = std::min(best, now);
          } else {
            go(last, left - 1, now);
          }
        }
      };
  go(0, stages, 0);
  return best;
}

TEST(CutStages, EqualsBruteForce) {
  for (std::int64_t vocab : {64, 256, 4000}) {
    for (std::int64_t layers = 1; layers <= 9; ++layers) {
      const CostModel model(spec_of(layers, vocab), {});
      for (std::int32_t stages = 1; stages <= layers; ++stages) {
        for (const Bytes memory :
             {kPlenty, Bytes(model.memory(model.whole()).n / stages * 3 / 2)}) {
          const CutLimits limits{memory, 1e9, 1e5};
          const auto cut = cut_stages(model, stages, limits);
          double worst = cut.empty() ? std::numeric_limits<double>::infinity() : 0;
          for (auto range : cut) worst = std::max(worst, stage_seconds(model, range, limits));
          EXPECT_EQ(worst, brute_force(model, stages, limits));
        }
      }
    }
  }
}

TEST(CutStages, CoversTheModelInOrderAndSpreadsTheRemainder) {
  const CostModel model(spec_of(10, 4), {});
  const auto cut = cut_stages(model, 4, {kPlenty, 1, 0});
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
  EXPECT_EQ(plan.bubble, 0);
}

TEST(PlanStages, CutsWhatDoesNotFit) {
  const CostModel model(spec_of(8), {});
  PlanRequest request = request_of(8, Bytes(model.memory(model.whole()).n * 4 / 10));
  const StagePlan plan = plan_stages(model, request);
  ASSERT_TRUE(plan.ok());
  EXPECT_GE(plan.stages.size(), 3u);
  for (const Bytes memory : plan.memory) EXPECT_LE(memory, request.agents[0].memory);
  EXPECT_GT(plan.bubble, 0);
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
}

double brute_pipedream(const PipedreamInput& in, std::size_t first, std::int32_t devices) {
  if (first == in.seconds.size()) {
    return devices == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity(), seconds = 0, weights = 0;
  for (std::size_t last = first + 1; last <= in.seconds.size(); ++last) {
    seconds += in.seconds[last - 1];
    weights += in.parameter_bytes[last - 1];
    const double link = first == 0 ? 0 : 2 * in.output_bytes[first - 1] / in.bytes_per_s;
    for (std::int32_t m = 1; m <= devices; ++m) {
      const double mine = std::max(seconds, 2.0 * (m - 1) * weights / in.bytes_per_s) / m;
      best = std::min(best, std::max({link, mine, brute_pipedream(in, last, devices - m)}));
    }
  }
  return best;
}

TEST(Pipedream, EqualsBruteForce) {
  Prng prng(7);
  for (int trial = 0; trial < 40; ++trial) {
    PipedreamInput in;
    const auto units = 1 + prng.below(6);
    for (std::uint64_t i = 0; i < units; ++i) {
      in.seconds.push_back(static_cast<double>(1 + prng.below(16)));
      in.parameter_bytes.push_back(static_cast<double>(prng.below(64)));
      in.output_bytes.push_back(static_cast<double>(prng.below(16)));
    }
    in.devices = static_cast<std::int32_t>(1 + prng.below(5));
    in.bytes_per_s = 8;
    const PipedreamPlan plan = pipedream_plan(in);
    EXPECT_DOUBLE_EQ(plan.seconds, brute_pipedream(in, 0, in.devices));
    std::int32_t devices = 0;
    for (const ReplicatedStage& stage : plan.stages) devices += stage.devices;
    EXPECT_EQ(devices, in.devices);
  }
}

}  // namespace
}  // namespace shoal::swarm
