// Pipelines of two to four stages, driven by hand in one process, against the whole model: losses,
// gradients, the AdamW step, microbatches in between each other, and what must not be added.
#include "trainer/model/stage_compute.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>

#include "base/prng.h"
#include "trainer/model/stage_model_parts.h"

namespace shoal::trainer {
namespace {

using swarm::PassKind;
using swarm::TaskId;

struct Setting {
  ModelFamily family;
  std::vector<UnitRange> cut;
  Recompute recompute;
};

std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return std::string(to_string(info.param.family)) + std::to_string(info.param.cut.size()) +
         to_string(info.param.recompute);
}

JobSpec spec_of(const Setting& setting) {
  JobSpec spec;
  spec.name = "test";
  const bool llama = setting.family == ModelFamily::kLlama;
  spec.model = {setting.family, 4, 16, 2, llama ? 1 : 0, 0, 6, 31, false};
  spec.train.batch = spec.train.microbatch = 2;
  spec.train.clip = 0;
  spec.train.warmup = Steps(0);
  spec.swarm.recompute = setting.recompute;
  return with_derived_fields(spec);
}

// A stage with values away from the symmetric starting points, cut out of the whole model's.
struct Stage {
  Stage(const JobSpec& spec, UnitRange units, std::span<const float> whole_values) {
    const auto failure = StageModel::create(spec, units, {}, model);
    EXPECT_FALSE(failure.has_value());
    const auto count = static_cast<std::size_t>(model->value_count());
    const auto slot = model->parts().model.layout().front();
    for (const auto& other : parameter_layout(spec.model, whole_model(spec.model))) {
      if (other.index == slot.index) first = static_cast<std::size_t>(other.first);
    }
    model->write_parameters(whole_values.subspan(first, count));
    compute = std::make_unique<TorchStage>(*model, nullptr);
  }
  torch::Tensor gradient() { return model->parts().model.flat_gradient(); }
  torch::Tensor values() { return model->parts().model.flat(); }

  std::size_t first = 0;  // of its values in the whole vector
  std::unique_ptr<StageModel> model;
  std::unique_ptr<TorchStage> compute;
};

class Pipeline {
 public:
  Pipeline(const JobSpec& spec, const std::vector<UnitRange>& cut, std::span<const float> values) {
    for (const UnitRange& units : cut) stages.emplace_back(spec, units, values);
  }

  // Down to the last stage and its loss; the gradient that it answers waits in answers[task].
  double down(TaskId task, std::span<const std::uint32_t> tokens, bool add, PassKind kind,
              std::int64_t at = 0) {
    std::vector<float> values, next;
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
      EXPECT_FALSE(stages[i].compute->forward(task, {at, kind, tokens, values}, next));
      values.swap(next);
    }
    swarm::LossSum loss;
    EXPECT_FALSE(stages.back().compute->last({at, kind, tokens, values}, add, loss, answers[task]));
    tokens_added[at] += loss.tokens;
    return loss.nats;
  }
  void up(TaskId task, bool add) {
    std::vector<float> gradient = std::move(answers[task]), next;
    for (std::size_t i = stages.size() - 1; i-- > 0;) {
      EXPECT_FALSE(stages[i].compute->backward(task, gradient, add, next));
      gradient.swap(next);
      stages[i].compute->forget(task);
    }
    EXPECT_TRUE(gradient.empty());  // stage 0 has nobody to give it to
  }
  torch::Tensor gradient() { return joined(&Stage::gradient); }
  torch::Tensor values() { return joined(&Stage::values); }
  void step(std::int64_t number) {
    for (Stage& stage : stages) {
      swarm::StageCompute::Stepped stepped;
      EXPECT_FALSE(stage.compute->step(number, tokens_added[number], stepped));
      EXPECT_TRUE(stepped.finite);
      EXPECT_GT(stepped.gradient_norm, 0);
      EXPECT_EQ(stage.gradient().abs().max().item<float>(), 0);
    }
  }

  std::vector<Stage> stages;
  std::map<TaskId, std::vector<float>> answers;
  std::map<std::int64_t, Tokens> tokens_added;  // by step

 private:
  torch::Tensor joined(torch::Tensor (Stage::*part)()) {
    std::vector<torch::Tensor> parts;
    for (Stage& stage : stages) parts.push_back((stage.*part)().clone());
    return torch::cat(parts);
  }
};

class StageComputeTest : public testing::TestWithParam<Setting> {
 protected:
  StageComputeTest() : spec_(spec_of(GetParam())), prng_(3) {
    const auto layout = parameter_layout(spec_.model, whole_model(spec_.model));
    values_.resize(static_cast<std::size_t>(value_count(layout)));
    initialize(layout, 5, values_);
    for (float& value : values_) value += static_cast<float>(0.2 * prng_.normal());
    for (std::size_t i = 0; i < 3; ++i) microbatches_.push_back(draw());
  }
  std::vector<std::uint32_t> draw() {
    std::vector<std::uint32_t> tokens;
    const std::int64_t count = spec_.train.microbatch * (spec_.model.context + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back(
          static_cast<std::uint32_t>(prng_.below(static_cast<std::uint64_t>(spec_.model.vocab))));
    }
    return tokens;
  }
  Pipeline pipeline() { return {spec_, GetParam().cut, values_}; }
  Pipeline pipeline_of_two_versions() {
    JobSpec spec = spec_;
    spec.swarm.schedule = PipelineSchedule::kTwoBufferedWeights;
    return {spec, GetParam().cut, values_};
  }
  // W(t+1) = W(t) - AdamW(gradient at W(t-1)), one microbatch per step, W(-1) = W(0).
  torch::Tensor delayed(std::int64_t steps) {
    Stage one = whole();
    std::vector<torch::Tensor> weights{one.values().clone()};
    const double tokens = static_cast<double>(spec_.train.microbatch * spec_.model.context);
    for (std::int64_t t = 0; t < steps; ++t) {
      one.values().copy_(weights[static_cast<std::size_t>(std::max<std::int64_t>(0, t - 1))]);
      one.gradient().zero_();
      whole_pass(one, microbatches_[static_cast<std::size_t>(t % 3)]);
      one.values().copy_(weights.back());
      StepResult result;
      EXPECT_FALSE(one.model->parts().take_step(Steps(t), Tokens(static_cast<std::int64_t>(tokens)),
                                                1.0 / tokens, result));
      weights.push_back(one.values().clone());
    }
    return weights.back();
  }
  // The whole model in torch's hands alone: loss sum and gradient of it.
  double whole_pass(Stage& whole, const std::vector<std::uint32_t>& tokens) {
    const std::int64_t context = spec_.model.context;
    const auto all = torch::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()))
                         .view({-1, context + 1});
    const auto loss =
        whole.model->parts().model.loss(all.narrow(1, 0, context), all.narrow(1, 1, context), 1.0);
    loss.backward();
    return loss.item<double>();
  }
  Stage whole() { return {spec_, whole_model(spec_.model), values_}; }
  static void expect_close(const torch::Tensor& a, const torch::Tensor& b, double tolerance) {
    EXPECT_GT(b.norm().item<double>(), 0);
    EXPECT_LT(((a - b).norm() / b.norm()).item<double>(), tolerance);
    EXPECT_LT((a - b).abs().max().item<double>(), tolerance * b.abs().max().item<double>());
  }

  JobSpec spec_;
  Prng prng_;
  std::vector<float> values_;
  std::vector<std::vector<std::uint32_t>> microbatches_;
};

constexpr double kRounding = 2e-6;  // relative, of float32 sums in another order

TEST_P(StageComputeTest, GradientsAndLossesAreThoseOfTheWholeModel) {
  Stage one = whole();
  Pipeline pipeline = this->pipeline();
  for (TaskId task = 0; task < 3; ++task) {
    const double expected = whole_pass(one, microbatches_[task]);
    EXPECT_NEAR(pipeline.down(task, microbatches_[task], true, PassKind::kTrain), expected,
                kRounding * expected);
    pipeline.up(task, true);
  }
  expect_close(pipeline.gradient(), one.gradient(), kRounding);
}

TEST_P(StageComputeTest, MicrobatchesMayBeUnderWayTogetherAndComeBackInAnyOrder) {
  Pipeline apart = pipeline(), together = pipeline();
  for (TaskId task = 0; task < 3; ++task) {
    apart.down(task, microbatches_[task], true, PassKind::kTrain);
    apart.up(task, true);
    together.down(task, microbatches_[task], true, PassKind::kTrain);
  }
  for (const TaskId task : {1, 2, 0}) together.up(task, true);
  expect_close(together.gradient(), apart.gradient(), kRounding);
  for (const Stage& stage : together.stages) EXPECT_EQ(stage.compute->tasks(), 0U);
}

TEST_P(StageComputeTest, WhatIsAnsweredOnlyAddsNothingAndAnswersTheSame) {
  Pipeline pipeline = this->pipeline();
  pipeline.down(1, microbatches_[0], true, PassKind::kTrain);
  const auto answer = pipeline.answers[1];
  pipeline.up(1, true);
  const auto before = pipeline.gradient();
  pipeline.down(2, microbatches_[0], false, PassKind::kTrain);
  EXPECT_EQ(pipeline.answers[2], answer);
  pipeline.up(2, false);
  EXPECT_TRUE(torch::equal(pipeline.gradient(), before));
}

TEST_P(StageComputeTest, TheStepsOfTheStagesAreTheStepOfTheWholeModel) {
  Stage one = whole();
  Pipeline pipeline = this->pipeline();
  for (std::int64_t step = 0; step < 3; ++step) {
    std::int64_t tokens = 0;
    one.gradient().zero_();
    for (TaskId task = 0; task < 3; ++task) {
      whole_pass(one, microbatches_[task]);
      pipeline.down(task, microbatches_[task], true, PassKind::kTrain, step);
      pipeline.up(task, true);
      tokens += spec_.train.microbatch * spec_.model.context;
    }
    StepResult result;
    ASSERT_FALSE(one.model->parts().take_step(Steps(step), Tokens(tokens),
                                              1.0 / static_cast<double>(tokens), result));
    pipeline.step(step);
  }
  const auto start = torch::tensor(values_);
  // Differences of single values: where a gradient is nearly zero Adam's first steps are of size lr
  // and of the sign that rounding gave.
  expect_close(pipeline.values() - start, one.values() - start, 1e-3);
}

// The next step's microbatch goes down before a step is taken and comes up after it.
TEST_P(StageComputeTest, TwoVersionsTakeTheDelayedSteps) {
  Pipeline pipeline = pipeline_of_two_versions();
  const auto down = [&](std::int64_t step) {
    pipeline.down(static_cast<TaskId>(step), microbatches_[static_cast<std::size_t>(step % 3)],
                  true, PassKind::kTrain, step);
  };
  constexpr std::int64_t kSteps = 5;
  down(0);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    if (step + 1 < kSteps) down(step + 1);
    pipeline.up(static_cast<TaskId>(step), true);
    pipeline.step(step);
  }
  const auto start = torch::tensor(values_);
  expect_close(pipeline.values() - start, delayed(kSteps) - start, 1e-3);
  for (Stage& stage : pipeline.stages) EXPECT_FALSE(stage.compute->settle());
  EXPECT_EQ(pipeline.down(8, microbatches_[0], true, PassKind::kLoss, 8),
            pipeline.down(9, microbatches_[0], true, PassKind::kLoss, 9))
      << "settled, every step sees the newest weights";
}

TEST_P(StageComputeTest, EvaluationKeepsNothingAndAddsNothing) {
  Stage one = whole();
  Pipeline pipeline = this->pipeline();
  const double expected = whole_pass(one, microbatches_[0]);
  EXPECT_NEAR(pipeline.down(7, microbatches_[0], true, PassKind::kLoss), expected,
              kRounding * expected);
  EXPECT_TRUE(pipeline.answers[7].empty());
  EXPECT_EQ(pipeline.gradient().abs().max().item<float>(), 0);
  for (const Stage& stage : pipeline.stages) EXPECT_EQ(stage.compute->tasks(), 0U);
}

TEST_P(StageComputeTest, AnEvaluationCountsTheSequencesThatAreThere) {
  Pipeline pipeline = this->pipeline();
  const auto row = static_cast<std::size_t>(spec_.model.context + 1);
  auto partial = microbatches_[0];
  std::fill(partial.begin() + static_cast<std::ptrdiff_t>(row), partial.end(), swarm::kNoToken);
  auto twice = microbatches_[0];
  std::copy_n(twice.begin(), row, twice.begin() + static_cast<std::ptrdiff_t>(row));
  const double expected = pipeline.down(7, twice, true, PassKind::kLoss) / 2;
  EXPECT_NEAR(pipeline.down(8, partial, true, PassKind::kLoss, 1), expected, kRounding * expected);
  EXPECT_EQ(pipeline.tokens_added[1], Tokens(spec_.model.context));
  std::fill(partial.begin(), partial.end(), swarm::kNoToken);
  EXPECT_EQ(pipeline.down(9, partial, true, PassKind::kLoss, 2), 0);
  EXPECT_EQ(pipeline.tokens_added[2], Tokens(0));
  std::vector<float> out;
  EXPECT_TRUE(pipeline.stages.front().compute->forward(1, {0, PassKind::kTrain, partial, {}}, out))
      << "only of an evaluation";
}

TEST_P(StageComputeTest, LogitsAreThoseOfTheLastPosition) {
  Stage one = whole();
  Pipeline pipeline = this->pipeline();
  pipeline.down(7, microbatches_[0], false, PassKind::kLogits);
  const torch::NoGradGuard no_grad;
  const std::int64_t context = spec_.model.context;
  const auto all =
      torch::tensor(std::vector<std::int64_t>(microbatches_[0].begin(), microbatches_[0].end()))
          .view({-1, context + 1});
  const auto logits = one.model->parts().model.logits(all.narrow(1, 0, context));
  const auto expected = logits.view({-1, context, spec_.model.vocab}).select(1, context - 1);
  expect_close(torch::tensor(pipeline.answers[7]), expected.reshape({-1}), kRounding);
}

TEST_P(StageComputeTest, BadMicrobatchesAreNamed) {
  Pipeline pipeline = this->pipeline();
  swarm::StageCompute& first = *pipeline.stages.front().compute;
  std::vector<float> out;
  auto tokens = microbatches_[0];
  tokens.pop_back();
  const auto failure = first.forward(1, {0, PassKind::kTrain, tokens, {}}, out);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kInternal);
  tokens.push_back(31);
  const auto unknown = first.forward(1, {0, PassKind::kTrain, tokens, {}}, out);
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->kind, ReplicaFailure::kDataInvalid);
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const ModelFamily family : {ModelFamily::kLlama, ModelFamily::kGpt2}) {
    for (const Recompute recompute : {Recompute::kKeep, Recompute::kRecompute}) {
      all.push_back({family, {{0, 3}, {3, 6}}, recompute});
      all.push_back({family, {{0, 1}, {1, 5}, {5, 6}}, recompute});
      all.push_back({family, {{0, 2}, {2, 3}, {3, 4}, {4, 6}}, recompute});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuts, StageComputeTest, testing::ValuesIn(settings()), name_of);

class LoneStageTest : public testing::Test {
 protected:
  LoneStageTest() {
    spec_ = spec_of({ModelFamily::kLlama, {}, Recompute::kKeep});
    spec_.model.vocab = 256;
    spec_.eval.batches = 3;
    const auto path = std::filesystem::path(testing::TempDir()) / "shoal_stage_compute_test.txt";
    std::ofstream out(path);
    for (int i = 0; i < 40; ++i) out << "0123456789";
    out.close();
    spec_.data.train = path.string();
  }
  JobSpec spec_;
};

TEST_F(LoneStageTest, DrawsTheOrderAndTheHeldOutSequences) {
  std::shared_ptr<const Dataset> data =
      std::move(*Dataset::open(spec_, data::DataRoots::whole_host()));
  std::unique_ptr<StageModel> model;
  ASSERT_FALSE(StageModel::create(spec_, {0, 2}, {}, model));
  TorchStage stage(*model, data);
  std::vector<std::uint32_t> drawn;
  ASSERT_FALSE(stage.draw({.index = 1, .kind = PassKind::kTrain}, 4, drawn));
  std::vector<std::int64_t> row(7), row2(7);
  ASSERT_TRUE(data->training_sequence(4, row).ok());
  ASSERT_TRUE(data->training_sequence(5, row2).ok());
  row.insert(row.end(), row2.begin(), row2.end());
  EXPECT_EQ(std::vector<std::int64_t>(drawn.begin(), drawn.end()), row);

  ASSERT_EQ(data->validation_sequences(6), 6);
  ASSERT_FALSE(stage.draw({.index = 1, .kind = PassKind::kLoss}, 5, drawn));
  ASSERT_TRUE(data->validation_sequence(5, 6, row2).ok());
  row.assign(row2.begin(), row2.end());
  row.insert(row.end(), row2.size(), swarm::kNoToken);
  EXPECT_EQ(std::vector<std::int64_t>(drawn.begin(), drawn.end()), row) << "there is no seventh";
}

TEST_F(LoneStageTest, StepsWithoutTokensDoNothingAndTooManyBrokenOnesFail) {
  std::unique_ptr<StageModel> model;
  ASSERT_FALSE(StageModel::create(spec_, {2, 4}, {}, model));
  model->seed();
  TorchStage stage(*model, nullptr);
  swarm::StageCompute::Stepped stepped;
  ASSERT_FALSE(stage.step(5, Tokens(0), stepped));
  EXPECT_EQ(model->adam_step(), 0);
  auto& gradient = model->parts().model.flat_gradient();
  swarm::MaybeComputeFailure failure;
  for (int i = 0; i < 9; ++i) {
    gradient.fill_(std::numeric_limits<float>::quiet_NaN());
    ASSERT_FALSE(stage.step(6 + i, Tokens(12), stepped));
    EXPECT_FALSE(stepped.finite);
    EXPECT_EQ(gradient.abs().max().item<float>(), 0);
  }
  gradient.fill_(std::numeric_limits<float>::quiet_NaN());
  failure = stage.step(15, Tokens(12), stepped);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, ReplicaFailure::kNonFiniteLoss);
  EXPECT_EQ(model->adam_step(), 0);
}

TEST_F(LoneStageTest, ClippingIsByTheStagesOwnNorm) {
  spec_.train.clip = 0.5;
  std::unique_ptr<StageModel> a, b;
  ASSERT_FALSE(StageModel::create(spec_, {2, 4}, {}, a));
  ASSERT_FALSE(StageModel::create(spec_, {2, 4}, {}, b));
  TorchStage clipped(*a, nullptr), within(*b, nullptr);
  const auto direction = torch::ones_like(a->parts().model.flat());
  const double norm = direction.norm().item<double>();
  swarm::StageCompute::Stepped stepped;
  a->parts().model.flat_gradient().copy_(direction * (10 * 2.0 / norm));  // mean: norm 2
  ASSERT_FALSE(clipped.step(0, Tokens(10), stepped));
  EXPECT_NEAR(stepped.gradient_norm, 2.0, 1e-5);
  b->parts().model.flat_gradient().copy_(direction * (10 * 0.5 / norm));
  ASSERT_FALSE(within.step(0, Tokens(10), stepped));
  EXPECT_LT((a->parts().optimizer.m() - b->parts().optimizer.m()).abs().max().item<double>(), 1e-9);
}

}  // namespace
}  // namespace shoal::trainer
