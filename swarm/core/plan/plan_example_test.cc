// The worked example of docs/swarm.md: its numbers are those of the planner.
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "base/number_text.h"
#include "swarm/core/plan/stage_plan.h"

namespace shoal::swarm {
namespace {

using testing::HasSubstr;

std::string page() {
  std::ifstream file(SHOAL_SOURCE_FOLDER "/docs/swarm.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr std::int32_t kFar = 0, kNear1 = 1, kNear2 = 2;

struct Example {
  Example() {
    spec.model = {.layers = 2, .hidden = 256, .heads = 8, .context = 128, .vocab = 256};
    spec.train.batch = 32, spec.train.microbatch = 2;
    spec.swarm.stages = 2;
    for (const double gflops : {60., 45., 45.}) {
      request.agents.push_back({AgentId(request.agents.size() + 1), gflops * 1e9, mebibytes(4096)});
    }
    request.lines = {{{kFar}, 10e6 / 8}, {{kNear1}, 1e9 / 8}, {{kNear2}, 1e9 / 8}};
    request.round_trip_s = {0.002, 0.002, 0.002};
    request.microbatches_per_router = 16;
    request.averaging = {.bytes_per_value = 1, .steps = 30};
    request.stages = 2;
    request.assignment.several_stages_per_agent = false;
  }
  Throughput of(const std::vector<Placement>& placements) const {
    const CostModel model(spec, cost_options(spec));
    return Forecaster(model, request).of({{0, 2}, {2, 4}}, placements);
  }
  JobSpec spec;
  PlanRequest request;
};

// | far | near-1, near-2 | 2.03 thousand | …
std::string row(const char* first, const char* second, const Throughput& t) {
  return std::string("| ") + first + " | " + second + " | " +
         three_figures(t.training_tokens_per_s) + " | " + three_figures(100 * t.network) + " % | " +
         three_figures(t.average_s) + " s | " + three_figures(t.tokens_per_s) + " |";
}

TEST(PlanExample, HasTheNumbersOfThePlanner) {
  const Example example;
  const std::string text = page();
  const CostModel model(example.spec, cost_options(example.spec));
  EXPECT_EQ(model.boundary_bytes(), 512) << "a token, in the text of the page";
  const double block = model.flops({1, 2}) * static_cast<double>(model.tokens_per_microbatch());
  EXPECT_THAT(text, HasSubstr("a block has " + three_figures(block / 1e9) + " GFLOP"));
  EXPECT_THAT(text, HasSubstr("`far` " + three_figures(1e3 * block / 60e9) + " ms and the others " +
                              three_figures(1e3 * block / 45e9) + " ms"));
  EXPECT_THAT(text, HasSubstr(row("`far`", "`near-1`, `near-2`",
                                  example.of({{kFar, 0}, {kNear1, 1}, {kNear2, 1}}))));
  EXPECT_THAT(text, HasSubstr(row("`near-1`", "`near-2`, `far`",
                                  example.of({{kNear1, 0}, {kNear2, 1}, {kFar, 1}}))));
  const Throughput without = example.of({{kNear1, 0}, {kNear2, 1}});
  EXPECT_THAT(text, HasSubstr(row("`near-1`", "`near-2`", without)));
  const StagePlan plan = plan_stages(model, example.request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.throughput.tokens_per_s, without.tokens_per_s) << "the page says it is chosen";
}

}  // namespace
}  // namespace shoal::swarm
