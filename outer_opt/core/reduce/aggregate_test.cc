// Robust averages: by hand, through butterflies, and in a small training where one of eight members
// sends minus ten times its pseudo-gradient.
#include "outer_opt/core/reduce/aggregate.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "outer_opt/core/reduce/session_test_util.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

constexpr Aggregator kRobust[] = {Aggregator::kTrimmedMean, Aggregator::kCenteredClip};

std::vector<float> aggregate_of(Aggregator kind, const std::vector<std::vector<float>>& rows,
                                std::vector<double> weights = {}) {
  if (weights.empty()) weights.assign(rows.size(), 1);
  std::vector<WeightedValues> members;
  for (std::size_t i = 0; i < rows.size(); ++i) members.push_back({rows[i], weights[i]});
  std::vector<float> out(rows.empty() ? 2 : rows[0].size());
  aggregate(kind, members, out);
  return out;
}

TEST(Aggregate, ByHand) {
  using Row = std::vector<float>;
  constexpr auto kTrim = Aggregator::kTrimmedMean, kClip = Aggregator::kCenteredClip;
  EXPECT_EQ(aggregate_of(kTrim, {}), (Row{0, 0}));
  EXPECT_EQ(aggregate_of(kClip, {{2, 4}, {4, 8}}, {3, 1}), (Row{2.5f, 5}));
  EXPECT_EQ(aggregate_of(Aggregator::kMean, {{1}, {2}, {6}}, {1, 1, 2}), Row{3.75f});
  EXPECT_EQ(aggregate_of(kTrim, {{1}, {2}, {900}}), Row{2});
  EXPECT_EQ(aggregate_of(kTrim, {{1}, {2}, {4}, {-900}}, {1, 1, 3, 1}), Row{1.5f});
  // From the median (2, 0) the distances are 1, 0, 1, 0 and 98, so t = 1. The center v settles
  // where -1 + (2 - v) + (3 - v) + (2 - v) + 1 = 0: the first and the last one are clipped.
  const Row center = aggregate_of(kClip, {{1, 0}, {2, 0}, {3, 0}, {2, 0}, {100, 0}});
  EXPECT_NEAR(center[0], 7.0 / 3, 1e-3);
  EXPECT_EQ(center[1], 0);
  // From the median 3 the distances are 3, 1, 0, 47 and 57, so t = 3; at the center 4 the outer
  // ones pull by -3, 3 and 3, the others by -2 and -1. What is trimmed has another mean.
  const std::vector<Row> uneven{{0}, {2}, {3}, {50}, {60}};
  EXPECT_NEAR(aggregate_of(kClip, uneven)[0], 4, 1e-2);
  EXPECT_NEAR(aggregate_of(kTrim, uneven)[0], 55.0 / 3, 1e-5);
  // All the same, or most of them: nothing moves.
  EXPECT_EQ(aggregate_of(kClip, {{5, 1}, {5, 1}, {9, 1}}), (Row{5, 1}));
  EXPECT_EQ(aggregate_of(kClip, {{5, 1}, {5, 1}, {5, 1}}), (Row{5, 1}));
}

// One of eight at either end, two of nine.
TEST(Aggregate, AQuarterIsTrimmed) {
  std::vector<std::vector<float>> rows{{0}, {1}, {2}, {3}, {4}, {5}, {60}, {1000}};
  EXPECT_EQ(aggregate_of(Aggregator::kTrimmedMean, rows)[0], 12.5f);
  rows.push_back({2000});
  EXPECT_EQ(aggregate_of(Aggregator::kTrimmedMean, rows)[0], 14.8f);
}

// Whatever one member of eight sends, the result stays among the honest ones.
TEST(Aggregate, OneLiarAmongEightMovesLittle) {
  Prng prng(3);
  std::vector<std::vector<float>> rows(8, std::vector<float>(1000));
  std::vector<double> honest(1000, 0.0);
  for (std::size_t m = 0; m < 8; ++m) {
    for (std::size_t i = 0; i < 1000; ++i) {
      rows[m][i] = static_cast<float>(1 + 0.5 * prng.normal());
      if (m < 7) honest[i] += static_cast<double>(rows[m][i]) / 7;
    }
  }
  for (const float factor : {-10.0f, 1e6f, -1e30f}) {
    auto all = rows;
    for (float& value : all[7]) value *= factor;
    for (const Aggregator kind : kRobust) {
      const auto out = aggregate_of(kind, all);
      double off = 0, length = 0;
      for (std::size_t i = 0; i < 1000; ++i) {
        off += std::pow(static_cast<double>(out[i]) - honest[i], 2);
        length += honest[i] * honest[i];
      }
      EXPECT_LT(std::sqrt(off / length), 0.25) << to_string(kind) << " " << factor;
    }
  }
}

TEST(Aggregate, AButterflyGivesTheSameBitsInAnyOrder) {
  for (const Aggregator kind : kRobust) {
    for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8}) {
      ReducePlan plan = make_plan(codec, 300, {1, 2, 0, 4, 1}, {1, 1, 1, 0, 2});
      plan.aggregator = kind;
      plan.members[1].clip_factor = 0.5;
      expect_same_bits_in_any_order(plan, 32);
    }
  }
}

TEST(Aggregate, AButterflyAggregatesWhatItsMembersSent) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 4, {1, 1, 2, 1});
  plan.aggregator = Aggregator::kTrimmedMean;
  plan.members[0].clip_factor = 0.5;
  SessionSwarm swarm(plan, 2, {{2, 2, 2, 2}, {3, 3, 3, 3}, {5, 5, 5, 5}, {-90, 90, -90, 90}});
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  // 1, 3, 5 and the liar: -90 and 5 go, or 1 and 90.
  EXPECT_EQ(swarm.averages[0], (std::vector<float>{2, 13.0f / 3, 2, 13.0f / 3}));
}

TEST(Aggregate, ALostMemberIsExcluded) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1, 1, 1}, {1, 1, 1, 0});
  plan.aggregator = Aggregator::kTrimmedMean;
  SessionSwarm swarm(plan, 2, {{1, 1}, {2, 2}, {3, 3}, {9, 9}});
  swarm.kill(3);
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  EXPECT_EQ(swarm.averages[0], (std::vector<float>{2, 2}));
}

// ---- a small training: least squares on a line of 16 weights, eight members with data of their
// own, ten inner steps per round, DiLoCo's outer step.

constexpr std::size_t kWeights = 16;
constexpr int kMembers = 8;

struct Sample {
  std::vector<float> x;
  float y = 0;
};

std::vector<Sample> draw_samples(Prng& prng, int count) {
  std::vector<Sample> samples(static_cast<std::size_t>(count));
  for (Sample& s : samples) {
    s.y = static_cast<float>(0.1 * prng.normal());
    for (std::size_t i = 0; i < kWeights; ++i) {
      s.x.push_back(static_cast<float>(prng.normal()));
      s.y += s.x[i] * static_cast<float>(i % 2 == 0 ? 1.0 : -0.5);
    }
  }
  return samples;
}

float error_of(const Sample& s, const std::vector<float>& weights) {
  float predicted = 0;
  for (std::size_t i = 0; i < kWeights; ++i) predicted += s.x[i] * weights[i];
  return predicted - s.y;
}

double loss_of(const std::vector<Sample>& samples, const std::vector<float>& weights) {
  double sum = 0;
  for (const Sample& s : samples) sum += std::pow(static_cast<double>(error_of(s, weights)), 2);
  return sum / static_cast<double>(samples.size());
}

std::vector<float> pseudo_gradient(const std::vector<Sample>& samples,
                                   const std::vector<float>& anchor, std::size_t from) {
  std::vector<float> local = anchor;
  for (std::size_t step = 0; step < 10; ++step) {
    const Sample& s = samples[(from + step) % samples.size()];
    const float error = error_of(s, local);
    for (std::size_t i = 0; i < kWeights; ++i) local[i] -= 0.01f * error * s.x[i];
  }
  for (std::size_t i = 0; i < kWeights; ++i) local[i] = anchor[i] - local[i];
  return local;
}

double train(Aggregator aggregator, bool with_liar) {
  Prng prng(11);
  std::vector<std::vector<Sample>> data;
  for (int m = 0; m < kMembers; ++m) data.push_back(draw_samples(prng, 200));
  const std::vector<Sample> held_out = draw_samples(prng, 200);
  std::vector<float> anchor(kWeights, 0.0f), momentum(kWeights, 0.0f);
  ReducePlan plan = make_plan(CodecKind::kInt8, kWeights, std::vector<double>(kMembers, 1));
  plan.aggregator = aggregator;
  for (std::size_t round = 0; round < 60; ++round) {
    std::vector<std::vector<float>> inputs;
    for (const auto& samples : data) inputs.push_back(pseudo_gradient(samples, anchor, 10 * round));
    if (with_liar) {
      for (float& value : inputs.back()) value *= -10;
    }
    SessionSwarm swarm(plan, 8, inputs);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    nesterov_step({0.7, 0.9}, swarm.averages[0], momentum, anchor);
  }
  return loss_of(held_out, anchor);
}

TEST(Aggregate, AMemberThatSendsMinusTenTimesItsOwnDoesNoHarm) {
  const double honest = train(Aggregator::kMean, false);
  EXPECT_LT(honest, 0.05);
  EXPECT_GT(train(Aggregator::kMean, true), 1.0);  // what it does to the mean
  for (const Aggregator kind : kRobust) {
    EXPECT_LT(train(kind, false), 1.5 * honest) << to_string(kind);
    EXPECT_LT(train(kind, true), 1.5 * honest) << to_string(kind);
  }
}

}  // namespace
}  // namespace shoal::outer_opt
