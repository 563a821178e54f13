// The trainer that waits: what it holds changes as it should, and its checkpoints come back.
#include "bench/timed/timed_compute.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "job/job_rules.h"

namespace shoal::bench {
namespace {

class TimedComputeTest : public testing::Test {
 protected:
  static JobSpec spec_of(SyncAlgorithm algorithm) {
    JobSpec spec = default_spec(algorithm);
    spec.name = "timed";
    spec.model = {ModelFamily::kGpt2, 2, 8, 2, 0, 0, 8, 256};
    spec.train.steps = Steps(1000);
    spec.train.batch = 2;
    spec.data.train = "/data/any.txt";
    return with_derived_fields(spec);
  }
  std::unique_ptr<replica::Compute> make(const std::vector<UnitRange>& cut, StageIndex stage) {
    std::unique_ptr<replica::Compute> compute;
    EXPECT_FALSE(host_.make({spec_, cut, stage}, compute));
    EXPECT_FALSE(compute->seed({}));
    return compute;
  }
  static std::vector<float> values_of(const replica::Compute& compute) {
    std::vector<float> values(static_cast<std::size_t>(compute.value_count()));
    compute.read_parameters(values);
    return values;
  }

  JobSpec spec_ = spec_of(SyncAlgorithm::kDiloco);
  TimedHost host_{{.step = milliseconds(1)}};
};

TEST_F(TimedComputeTest, AStepMovesTheParametersAndLowersTheLoss) {
  const auto compute = make({{0, 4}}, 0);
  const std::vector<float> before = values_of(*compute);
  replica::StepResult first, second;
  ASSERT_FALSE(compute->train_step(Steps(500), 0, first));
  ASSERT_FALSE(compute->train_step(Steps(501), 2, second));
  EXPECT_NE(values_of(*compute), before);
  EXPECT_LT(second.loss, first.loss);
  EXPECT_EQ(compute->adam_step(), 2);
}

TEST_F(TimedComputeTest, WhatIsWrittenComesBackAndShrinksFromThere) {
  const auto compute = make({{0, 4}}, 0);
  replica::StepResult step;
  ASSERT_FALSE(compute->train_step(Steps(500), 0, step));
  const std::vector<float> written(values_of(*compute).size(), 0.5f);
  compute->write_parameters(written);
  EXPECT_EQ(values_of(*compute), written);
  ASSERT_FALSE(compute->train_step(Steps(501), 2, step));
  EXPECT_NEAR(step.loss, 3 * (1 - step.lr) * (1 - step.lr), 1e-5);
  EXPECT_FLOAT_EQ(values_of(*compute).back(), 0.5f * (1 - static_cast<float>(step.lr)));
}

// In more than one run: the second one is changed in part.
TEST_F(TimedComputeTest, WhatIsChangedInPlaceIsWhatIsReadAndTheRestGoesOn) {
  spec_.model.hidden = 512;
  const auto compute = make({{0, 4}}, 0);
  replica::StepResult step;
  ASSERT_FALSE(compute->train_step(Steps(500), 0, step));
  std::vector<float> expected = values_of(*compute);
  ASSERT_GT(expected.size(), std::size_t{1} << 16);
  const std::size_t place = (std::size_t{1} << 16) + 3;
  expected[place] = 7;
  compute->change_parameters([&](std::int64_t first, std::span<float> run) {
    const auto at = static_cast<std::int64_t>(place) - first;
    if (at >= 0 && at < std::ssize(run)) run[static_cast<std::size_t>(at)] = 7;
  });
  EXPECT_EQ(values_of(*compute), expected);
  std::vector<float> visited;
  compute->visit_parameters([&](std::int64_t first, std::span<const float> run) {
    EXPECT_EQ(first, std::ssize(visited));
    visited.insert(visited.end(), run.begin(), run.end());
  });
  EXPECT_EQ(visited, expected);
  ASSERT_FALSE(compute->train_step(Steps(501), 2, step));
  const std::vector<float> after = values_of(*compute);
  EXPECT_NEAR(after[place], 7 * (1 - step.lr), 1e-5);
  EXPECT_NEAR(after[0], expected[0] * (1 - step.lr), 1e-6);
}

TEST_F(TimedComputeTest, WithDdpStepsAddGradientsAndMoveNothing) {
  spec_ = spec_of(SyncAlgorithm::kDdp);
  const auto compute = make({{0, 4}}, 0);
  const std::vector<float> values = values_of(*compute);
  replica::StepResult step;
  for (const std::int64_t first : {0, 2}) ASSERT_FALSE(compute->train_step(Steps(0), first, step));
  EXPECT_EQ(values_of(*compute), values);
  std::vector<float> gradient(values.size());
  compute->read_gradient(gradient);
  EXPECT_EQ(gradient.front(), 2 * values.front());
  compute->clear_gradient();
  compute->read_gradient(gradient);
  EXPECT_EQ(gradient.front(), 0);
}

TEST_F(TimedComputeTest, StagesAddUpToTheModel) {
  const auto whole = make({{0, 4}}, 0);
  const std::vector<UnitRange> cut{{0, 2}, {2, 4}};
  const auto first = make(cut, 0), last = make(cut, 1);
  const outer_opt::StageSizes sizes = whole->sizes();
  EXPECT_EQ(sizes.blocks.size(), 2u);
  EXPECT_EQ(sizes.embedding + sizes.blocks[0] + sizes.blocks[1] + sizes.head, whole->value_count());
  EXPECT_EQ(first->sizes().blocks.size(), 1u);
  EXPECT_EQ(last->sizes().embedding, 0);
  EXPECT_EQ(last->data(), Digest());
}

TEST_F(TimedComputeTest, ACheckpointComesBack) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_timed_compute_test";
  const std::vector<float> anchor{1, 2, 3}, momentum{4, 5, 6}, m{7, 8, 9}, v{3, 2, 1};
  const RoundKey key{JobId(3), 1, 9};
  const replica::CheckpointContent content{
      spec_, {{0, 4}}, 0, key, Steps(90), anchor, {{"momentum", momentum}}, m, v, 90};
  ASSERT_TRUE(host_.write_checkpoint(folder, content).ok());
  const auto read = host_.read_checkpoint(folder, 0);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->spec.model, spec_.model);
  EXPECT_EQ(read->cut, (std::vector<UnitRange>{{0, 4}}));
  EXPECT_EQ(read->key, key);
  EXPECT_EQ(read->step, Steps(90));
  EXPECT_EQ(vector_of(read->outer, "momentum"), momentum);
  EXPECT_EQ(read->adam_v, v);
  EXPECT_EQ(read->adam_step, 90);
  EXPECT_EQ(host_.read_checkpoint(folder, 1).error().code, Code::kIncompatible);
}

// Two blocks, and a step of two microbatches of one sequence.
TEST_F(TimedComputeTest, ABlockTakesItsShareOfAStep) {
  JobSpec spec = spec_;
  spec.train.microbatch = 1;
  const auto times =
      host_.measure_block({0, block_shape(spec), spec.model.layers, spec.train.batch});
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->block, microseconds(250));
  EXPECT_EQ(times->embedding, Duration());
  EXPECT_EQ(times->head, Duration());
}

}  // namespace
}  // namespace shoal::bench
