#include "swarm/core/plan/throughput.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "swarm/core/plan/small_model_test_util.h"

namespace shoal::swarm {
namespace {

struct Even {
  explicit Even(std::int32_t agents, std::int64_t layers = 3) : model(spec_of(layers), {}) {
    for (std::int32_t i = 0; i < agents; ++i) {
      cluster.agents.push_back({AgentId(i + 1), 1e9, kPlenty});
    }
    cluster.microbatches_per_router = 4;
  }
  Throughput of(const std::vector<UnitRange>& stages, const std::vector<Placement>& placements) {
    return Forecaster(model, cluster).of(stages, placements);
  }
  CostModel model;
  Cluster cluster;
};

// Four microbatches go through three stages: two slots of filling and draining, each longer by the
// round trip.
TEST(Throughput, CountsFillingAndDraining) {
  Even e(3);
  const std::vector<UnitRange> cut = {{0, 2}, {2, 3}, {3, 5}};
  const std::vector<Placement> placed = {{0, 0}, {1, 1}, {2, 2}};
  double slowest = 0;
  for (const UnitRange range : cut) slowest = std::max(slowest, e.model.flops(range));
  const double each = 1e9 / slowest;
  const Throughput near = e.of(cut, placed);
  EXPECT_DOUBLE_EQ(near.bubble, 2. / (4 + 2));
  EXPECT_DOUBLE_EQ(near.tokens_per_s, each * (1 - near.bubble));
  EXPECT_EQ(near.network, 1);
  EXPECT_EQ(near.full_line, -1);
  const double t = static_cast<double>(e.model.tokens_per_microbatch()) / each;
  e.cluster.round_trip_s = {3 * t, 3 * t, 3 * t};
  EXPECT_DOUBLE_EQ(e.of(cut, placed).bubble, 8. / (4 + 8));
}

// A line for half of what the device in the middle sends: the steady part takes twice as long, and
// each microbatch is 2 of its own times on the line.
TEST(Throughput, CountsTheLine) {
  Even e(3);
  const std::vector<UnitRange> cut = {{0, 2}, {2, 3}, {3, 5}};
  const std::vector<Placement> placed = {{0, 0}, {1, 1}, {2, 2}};
  const double each = e.of(cut, placed).tokens_per_s / (1 - 2. / 6);
  e.cluster.lines = {{{1}, each * static_cast<double>(e.model.boundary_bytes())}};
  const Throughput slow = e.of(cut, placed);
  EXPECT_NEAR(slow.network, 0.5, 1e-3);
  EXPECT_EQ(slow.full_line, 0);
  // 4 microbatches of 2 t each, 2 slots of t, and the way there and back over 2 boundaries: 4 t.
  EXPECT_NEAR(slow.bubble, 6. / (8 + 6), 1e-3);
}

// Two replicas of the whole model exchange their vectors, a byte for each value, every 10 steps.
TEST(Throughput, CountsTheAverageOfARound) {
  Even e(2);
  const std::vector<UnitRange> cut = {e.model.whole()};
  const std::vector<Placement> placed = {{0, 0}, {1, 0}};
  const double before = e.of(cut, placed).tokens_per_s;
  const auto values = static_cast<double>(e.model.parameters(e.model.whole()));
  e.cluster.averaging = {.bytes_per_value = 1, .steps = 10};
  EXPECT_EQ(e.of(cut, placed).tokens_per_s, before) << "no line is known";
  e.cluster.lines = {{{0}, values / 5}, {{1}, values}};
  const Throughput averaged = e.of(cut, placed);
  EXPECT_DOUBLE_EQ(averaged.average_s, 5) << "behind the slow line is no part of the average";
  const double step_s = 2 * 4 * static_cast<double>(e.model.tokens_per_microbatch()) / before;
  EXPECT_DOUBLE_EQ(averaged.tokens_per_s, before * 10 * step_s / (10 * step_s + 5));
  e.cluster.averaging.steps_behind = 1e9;
  EXPECT_DOUBLE_EQ(e.of(cut, placed).tokens_per_s, before) << "it travels behind the steps";
}

}  // namespace
}  // namespace shoal::swarm
