#include "swarm/core/plan/cost_model.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

JobSpec spec_of(ModelFamily family) {
  JobSpec spec;
  spec.model = {
      .family = family, .layers = 6, .hidden = 96, .heads = 6, .context = 64, .vocab = 1000};
  if (family == ModelFamily::kLlama) spec.model.kv_heads = 2;
  spec.train.batch = 8;
  spec.train.microbatch = 2;
  return spec;
}

class BothFamilies : public testing::TestWithParam<ModelFamily> {};
INSTANTIATE_TEST_SUITE_P(CostModel, BothFamilies,
                         testing::Values(ModelFamily::kLlama, ModelFamily::kGpt2));

TEST_P(BothFamilies, WholeModelIsWhatTheJobSpecSays) {
  const JobSpec spec = spec_of(GetParam());
  const CostModel model(spec, {});
  EXPECT_EQ(model.parameters(model.whole()), parameter_count(spec.model));
  EXPECT_EQ(model.memory(model.whole()), training_memory(spec));
}

// The first stage counts as two and a half blocks, the last one as three.
TEST_P(BothFamilies, MeasuredEndsCountInBlocks) {
  const JobSpec spec = spec_of(GetParam());
  const CostModel formulas(spec, {}), measured(spec, {}, EndCosts{0.5, 1});
  const double block = formulas.flops({1, 2});
  EXPECT_DOUBLE_EQ(measured.flops({1, 2}), block) << "blocks stay the unit";
  EXPECT_DOUBLE_EQ(measured.flops({0, 3}), 2.5 * block);
  EXPECT_DOUBLE_EQ(measured.flops({5, 8}), 3 * block);
  EXPECT_EQ(measured.memory({0, 3}), formulas.memory({0, 3}));
}

TEST(CostModel, HeadsOfAnotherSizeAndBiasesCount) {
  JobSpec spec = spec_of(ModelFamily::kLlama);
  spec.model.head_dim = 40;
  spec.model.qkv_bias = true;
  for (const Optimizer optimizer : {Optimizer::kAdamw, Optimizer::kMuon}) {
    spec.train.optimizer = optimizer;
    const CostModel model(spec, {});
    EXPECT_EQ(model.parameters(model.whole()), parameter_count(spec.model));
    EXPECT_EQ(model.memory(model.whole()), training_memory(spec));
  }
}

TEST_P(BothFamilies, MuonHasNoSecondMomentOfTheMatrices) {
  JobSpec spec = spec_of(GetParam());
  spec.train.join = JoinMoments::kMoments;
  const CostModel adamw(spec, {});
  spec.train.optimizer = Optimizer::kMuon;
  const CostModel muon(spec, {});
  EXPECT_EQ(muon.memory(muon.whole()), training_memory(spec));
  const std::int64_t matrices = 6 * muon.unit(1).matrix_parameters;
  EXPECT_EQ(adamw.state_bytes(adamw.whole()) - muon.state_bytes(muon.whole()), Bytes(4 * matrices));
  EXPECT_EQ(muon.memory({0, 1}), adamw.memory({0, 1}));  // the embedding has AdamW
  EXPECT_LT(muon.memory({1, 7}), adamw.memory({1, 7}));
}

TEST_P(BothFamilies, JoinerDownloadsMomentsOnlyWhereTheyTravel) {
  JobSpec spec = spec_of(GetParam());
  const CostModel fresh(spec, {});
  EXPECT_EQ(fresh.state_bytes(fresh.whole()), Bytes(8 * fresh.parameters(fresh.whole())));
  spec.train.join = JoinMoments::kMoments;
  const CostModel with(spec, {});
  EXPECT_EQ(with.state_bytes(with.whole()), Bytes(16 * with.parameters(with.whole())));
}

TEST_P(BothFamilies, StagesAddUpToTheUntiedWhole) {
  JobSpec spec = spec_of(GetParam());
  spec.model.tie_embeddings = false;
  const CostModel model(spec, {});
  std::int64_t parameters = 0;
  Bytes memory;
  double flops = 0;
  for (const UnitRange stage : {UnitRange{0, 3}, UnitRange{3, 5}, UnitRange{5, 8}}) {
    parameters += model.parameters(stage);
    memory += model.memory(stage);
    flops += model.flops(stage);
  }
  EXPECT_EQ(parameters, parameter_count(spec.model));
  EXPECT_EQ(memory, training_memory(spec));
  EXPECT_DOUBLE_EQ(flops, model.flops(model.whole()));
}

TEST(CostModel, BoundaryBytesByCodec) {
  const JobSpec spec = spec_of(ModelFamily::kLlama);
  EXPECT_EQ(CostModel(spec, {.codec = ActivationCodec::kFp32}).boundary_bytes(), 384);
  EXPECT_EQ(CostModel(spec, {.codec = ActivationCodec::kBf16}).boundary_bytes(), 192);
  EXPECT_EQ(CostModel(spec, {.codec = ActivationCodec::kInt8}).boundary_bytes(), 96 + 4);
}

TEST(CostModel, HandCountedFlopsOfASmallBlock) {
  JobSpec spec;
  spec.model = {.family = ModelFamily::kGpt2,
                .layers = 1,
                .hidden = 2,
                .heads = 1,
                .ffn = 3,
                .context = 5,
                .vocab = 7};
  const CostModel keep(spec, {.recompute = Recompute::kKeep});
  // 4*2*2 attention + 2*2*3 mlp = 28 values in matrices; attention 4*5*2.
  EXPECT_DOUBLE_EQ(keep.forward_flops({1, 2}), 2 * 28 + 40);
  EXPECT_DOUBLE_EQ(keep.forward_flops({2, 3}), 2 * 7 * 2);
  EXPECT_DOUBLE_EQ(keep.backward_flops({1, 2}), 2 * 96);
  EXPECT_DOUBLE_EQ(CostModel(spec, {}).backward_flops({1, 2}), 3 * 96);
}

TEST(CostModel, MicrobatchesInFlightKeepInputsOrGraphs) {
  const JobSpec spec = spec_of(ModelFamily::kLlama);
  const UnitRange stage{1, 3};
  const Bytes one = CostModel(spec, {}).memory(stage);
  const Bytes inputs = CostModel(spec, {.microbatches_in_flight = 4}).memory(stage);
  const Bytes graphs =
      CostModel(spec, {.recompute = Recompute::kKeep, .microbatches_in_flight = 4}).memory(stage);
  EXPECT_EQ(inputs - one, Bytes(3 * 2 * 64 * 96 * 4));
  EXPECT_GT(graphs, inputs);
}

TEST(CostModel, ASecondWeightVersionCostsWeightsAndGradients) {
  const JobSpec spec = spec_of(ModelFamily::kLlama);
  const UnitRange stage{1, 3};
  const CostModel one(spec, {}), two(spec, {.weight_versions = 2});
  EXPECT_EQ(two.memory(stage) - one.memory(stage), Bytes(2 * 4 * one.parameters(stage)));
}

TEST(CostModel, AStageKeepsItsPartOfResidualAndContributions) {
  JobSpec spec = spec_of(ModelFamily::kLlama);
  const UnitRange stage{1, 3};
  const CostModel plain(spec, {});
  const Bytes vector(4 * plain.parameters(stage));
  spec.sync = {.topology = Topology::kAllgather, .codec = CodecKind::kSparse2};
  EXPECT_EQ(CostModel(spec, {}).memory(stage) - plain.memory(stage), vector);
  EXPECT_EQ(CostModel(spec, {}).memory(plain.whole()), training_memory(spec));
  spec.sync = {.aggregator = Aggregator::kCenteredClip};
  EXPECT_EQ(CostModel(spec, {}).memory(stage) - plain.memory(stage), vector);
}

TEST(CostModel, TheWholeModelIsNoPipeline) {
  const JobSpec spec = spec_of(ModelFamily::kLlama);
  const CostModel model(
      spec, {.recompute = Recompute::kKeep, .microbatches_in_flight = 4, .weight_versions = 2});
  EXPECT_EQ(model.memory(model.whole()), training_memory(spec));
}

TEST(CostModel, AWholeModelRecomputesBlockByBlock) {
  JobSpec spec = spec_of(ModelFamily::kLlama);
  const CostModel kept(spec, cost_options(spec));
  spec.swarm.recompute = Recompute::kRecompute;
  const CostModel recomputed(spec, cost_options(spec));
  EXPECT_LT(recomputed.memory(kept.whole()), kept.memory(kept.whole()));
  EXPECT_EQ(recomputed.memory(kept.whole()), training_memory(spec));
  EXPECT_GT(recomputed.backward_flops(kept.whole()), kept.backward_flops(kept.whole()));
}

TEST(CostModel, OptionsOfAJobCountWhatAReplicaMayHold) {
  JobSpec spec = spec_of(ModelFamily::kLlama);
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 1);
  spec.swarm.stages = 2;
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 4);  // all that a router draws: 8 / 2
  spec.train.batch = 64;
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 16);  // the window: 8 per replica
  spec.swarm.stages = 0;
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 32);
  spec.swarm.schedule = PipelineSchedule::kOneForwardOneBackward;
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 6);
  spec.swarm.stages = 2;
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 2);
  EXPECT_EQ(cost_options(spec).weight_versions, 1);
  spec.swarm.schedule = PipelineSchedule::kTwoBufferedWeights;
  EXPECT_EQ(cost_options(spec).weight_versions, 2);
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 16);
  spec.train.batch = 8;
  EXPECT_EQ(cost_options(spec).microbatches_in_flight, 8);  // two steps of what a router draws
  EXPECT_EQ(cost_options(spec).codec, ActivationCodec::kBf16);
  EXPECT_EQ(cost_options(spec).recompute, Recompute::kKeep);
}

}  // namespace
}  // namespace shoal::swarm
