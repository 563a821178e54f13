// Both families add up to parameter_count(); decay follows the rule; the initial bits are fixed by
// the seed.
#include "trainer/plain/parameter_layout.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/digest.h"

namespace shoal::trainer {
namespace {

ModelSpec model_of(ModelFamily family, std::int64_t kv_heads, std::optional<bool> tie = {}) {
  JobSpec spec;
  spec.model = {family, 3, 64, 4, kv_heads, 0, 32, 100, tie};
  return with_derived_fields(spec).model;
}

std::vector<TensorSlot> layout_of(const ModelSpec& model) {
  return parameter_layout(model, whole_model(model));
}

std::vector<float> initial_of(const std::vector<TensorSlot>& layout) {
  std::vector<float> flat(static_cast<std::size_t>(value_count(layout)));
  initialize(layout, 1, flat);
  return flat;
}

TEST(ParameterLayout, CoversTheVectorWithoutGapsAndCountsLikeTheSpec) {
  for (const ModelSpec& model :
       {model_of(ModelFamily::kLlama, 0), model_of(ModelFamily::kLlama, 2),
        model_of(ModelFamily::kLlama, 2, true), model_of(ModelFamily::kGpt2, 0, false),
        model_of(ModelFamily::kGpt2, 0)}) {
    std::int64_t next = 0;
    for (const TensorSlot& slot : layout_of(model)) {
      EXPECT_EQ(slot.first, next) << slot.name;
      next += slot.count;
    }
    EXPECT_EQ(next, parameter_count(model));
  }
}

TEST(ParameterLayout, BiasesAndHeadsOfAnotherSizeAreCounted) {
  JobSpec spec;
  spec.model = {ModelFamily::kLlama, 3, 64, 4, 2, 0, 32, 100};
  spec.model.head_dim = 24;
  spec.model.qkv_bias = true;
  const ModelSpec model = with_derived_fields(spec).model;
  const auto layout = layout_of(model);
  EXPECT_EQ(value_count(layout), parameter_count(model));
  const auto shape = [&](std::string_view name) {
    const auto at = std::find_if(layout.begin(), layout.end(),
                                 [&](const TensorSlot& slot) { return slot.name == name; });
    return at == layout.end() ? std::vector<std::int64_t>{} : at->shape;
  };
  EXPECT_EQ(shape("model.layers.2.self_attn.q_proj.bias"), (std::vector<std::int64_t>{96}));
  EXPECT_EQ(shape("model.layers.2.self_attn.v_proj.bias"), (std::vector<std::int64_t>{48}));
  EXPECT_EQ(shape("model.layers.2.self_attn.o_proj.weight"), (std::vector<std::int64_t>{64, 96}));
}

TEST(ParameterLayout, OnlyMatricesDecayAndPositionsDoNot) {
  for (const TensorSlot& slot : layout_of(model_of(ModelFamily::kGpt2, 0))) {
    const bool matrix = slot.shape.size() == 2 && slot.name != "transformer.wpe.weight";
    EXPECT_EQ(slot.decays, matrix) << slot.name;
  }
}

TEST(ParameterLayout, AdamWHasTwoMomentsOfEveryValue) {
  const auto layout = layout_of(model_of(ModelFamily::kGpt2, 0));
  const OptimizerLayout all = optimizer_layout(layout, Optimizer::kAdamw);
  EXPECT_TRUE(all.matrices.empty());
  EXPECT_EQ(all.second_moments, value_count(layout));
  for (const AdamRange& range : all.adam) EXPECT_EQ(range.second, range.first);
}

// Every value belongs to one of the two, and the second moments have no gaps.
TEST(ParameterLayout, MuonHasTheMatricesOfTheBlocks) {
  for (const ModelFamily family : {ModelFamily::kLlama, ModelFamily::kGpt2}) {
    const ModelSpec model = model_of(family, 0, false);
    const auto layout = layout_of(model);
    const OptimizerLayout split = optimizer_layout(layout, Optimizer::kMuon);
    EXPECT_EQ(split.matrices.size(),
              static_cast<std::size_t>(model.layers) * (family == ModelFamily::kLlama ? 7 : 6));
    std::vector<int> owners(static_cast<std::size_t>(value_count(layout)));
    std::int64_t second = 0;
    for (const AdamRange& range : split.adam) {
      EXPECT_EQ(range.second, second);
      second += range.count;
      for (std::int64_t i = 0; i < range.count; ++i)
        ++owners[static_cast<std::size_t>(range.first + i)];
    }
    EXPECT_EQ(split.second_moments, second);
    for (const MatrixPlace& place : split.matrices) {
      for (std::int64_t row = 0; row < place.rows; ++row) {
        for (std::int64_t column = 0; column < place.columns; ++column) {
          ++owners[static_cast<std::size_t>(place.first + row * place.stride + column)];
        }
      }
    }
    EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), value_count(layout));
  }
}

TEST(ParameterLayout, DecayRangesCoverTheVectorAndAlternate) {
  const ModelSpec model = model_of(ModelFamily::kLlama, 2);
  const auto ranges = decay_ranges(layout_of(model));
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
  const auto layout = layout_of(model_of(ModelFamily::kLlama, 0));
  const auto size = static_cast<std::size_t>(layout.back().first + layout.back().count);
  std::vector<float> a(size), b(size), other(size);
  initialize(layout, 1, a);
  initialize(layout, 1, b);
  initialize(layout, 2, other);
  EXPECT_EQ(digest_of(std::span<const float>(a)), digest_of(std::span<const float>(b)));
  EXPECT_NE(digest_of(std::span<const float>(a)), digest_of(std::span<const float>(other)));
}

TEST(ParameterLayout, OnlyAnUntiedHeadHasAMatrix) {
  const auto last = [](const ModelSpec& model) { return layout_of(model).back().name; };
  EXPECT_EQ(last(model_of(ModelFamily::kLlama, 0, true)), "model.norm.weight");
  EXPECT_EQ(last(model_of(ModelFamily::kLlama, 0, false)), "lm_head.weight");
  EXPECT_EQ(last(model_of(ModelFamily::kGpt2, 0, true)), "transformer.ln_f.bias");
  EXPECT_EQ(last(model_of(ModelFamily::kGpt2, 0, false)), "lm_head.weight");
}

// Names, shapes, decay and initial bits of the stages, put together, are those of the whole.
TEST(ParameterLayout, StagesOfEveryCutAddUpToTheWholeModel) {
  for (const ModelFamily family : {ModelFamily::kLlama, ModelFamily::kGpt2}) {
    const ModelSpec model = model_of(family, 0, false);
    const auto whole = layout_of(model);
    const auto bits = initial_of(whole);
    const std::vector<std::vector<UnitRange>> cuts = {
        {{0, 5}}, {{0, 2}, {2, 5}}, {{0, 1}, {1, 2}, {2, 4}, {4, 5}}};
    for (const auto& cut : cuts) {
      std::size_t next = 0;
      std::vector<float> joined;
      for (const UnitRange& range : cut) {
        const auto stage = parameter_layout(model, range);
        EXPECT_EQ(stage.front().first, 0);
        for (const TensorSlot& slot : stage) {
          ASSERT_LT(next, whole.size());
          EXPECT_EQ(slot.name, whole[next].name);
          EXPECT_EQ(slot.shape, whole[next].shape);
          EXPECT_EQ(slot.decays, whole[next].decays);
          EXPECT_EQ(slot.index, next);
          ++next;
        }
        const auto values = initial_of(stage);
        joined.insert(joined.end(), values.begin(), values.end());
      }
      EXPECT_EQ(next, whole.size());
      EXPECT_EQ(joined, bits);
    }
  }
}

double deviation(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(ParameterLayout, DeviationsAndConstants) {
  const auto layout = layout_of(model_of(ModelFamily::kGpt2, 0));
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
