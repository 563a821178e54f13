// Both families add up to parameter_count(); decay follows the rule; the initial bits are fixed by
// the seed.
#include "trainer/parameter_layout.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/digest.h"

namespace shoal::trainer {
namespace {

ModelSpec model_of(ModelFamily family, std::int64_t kv_heads) {
  JobSpec spec;
  spec.model = {family, 3, 64, 4, kv_heads, 0, 32, 100};
  return with_derived_fields(spec).model;
}

TEST(ParameterLayout, CoversTheVectorWithoutGapsAndCountsLikeTheSpec) {
  for (const ModelSpec& model : {model_of(ModelFamily::kLlama, 0), model_of(ModelFamily::kLlama, 2),
                                 model_of(ModelFamily::kGpt2, 0)}) {
    std::int64_t next = 0;
    for (const TensorSlot& slot : parameter_layout(model)) {
      EXPECT_EQ(slot.first, next) << slot.name;
      next += slot.count;
    }
    EXPECT_EQ(next, parameter_count(model));
  }
}

TEST(ParameterLayout, OnlyMatricesDecayAndPositionsDoNot) {
  for (const TensorSlot& slot : parameter_layout(model_of(ModelFamily::kGpt2, 0))) {
    const bool matrix = slot.shape.size() == 2 && slot.name != "transformer.wpe.weight";
    EXPECT_EQ(slot.decays, matrix) << slot.name;
  }
}

TEST(ParameterLayout, DecayRangesCoverTheVectorAndAlternate) {
  const ModelSpec model = model_of(ModelFamily::kLlama, 2);
  const auto ranges = decay_ranges(parameter_layout(model));
  std::int64_t next = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].first, next);
    if (i > 0) {
      EXPECT_NE(ranges[i].decays, ranges[i - 1].decays);
    }
    next += ranges[i].count;
  }
  EXPECT_EQ(next, parameter_count(model));
}

TEST(ParameterLayout, InitialBitsAreAFunctionOfTheSeed) {
  const auto layout = parameter_layout(model_of(ModelFamily::kLlama, 0));
  const auto size = static_cast<std::size_t>(layout.back().first + layout.back().count);
  std::vector<float> a(size), b(size), other(size);
  initialize(layout, 1, a);
  initialize(layout, 1, b);
  initialize(layout, 2, other);
  EXPECT_EQ(digest_of(std::span<const float>(a)), digest_of(std::span<const float>(b)));
  EXPECT_NE(digest_of(std::span<const float>(a)), digest_of(std::span<const float>(other)));
}

double deviation(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(ParameterLayout, DeviationsAndConstants) {
  const auto layout = parameter_layout(model_of(ModelFamily::kGpt2, 0));
  std::vector<float> flat(static_cast<std::size_t>(layout.back().first + layout.back().count));
  initialize(layout, 1, flat);
  for (const TensorSlot& slot : layout) {
    const auto values = std::span<const float>(flat).subspan(static_cast<std::size_t>(slot.first),
                                                             static_cast<std::size_t>(slot.count));
    if (slot.initial != Initial::kNormal) {
      const float wanted = slot.initial == Initial::kOnes ? 1.0f : 0.0f;
      EXPECT_TRUE(std::all_of(values.begin(), values.end(), [&](float v) { return v == wanted; }));
      continue;
    }
    const bool residual = slot.name.find("c_proj") != std::string::npos;
    const double wanted = residual ? 0.02 / std::sqrt(6.0) : 0.02;
    EXPECT_NEAR(deviation(values), wanted, wanted * 0.1) << slot.name;
  }
}

}  // namespace
}  // namespace shoal::trainer
