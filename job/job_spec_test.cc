// What follows from the values of a spec: derived fields, parameters, memory, rounds.
#include "job/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"

namespace shoal {
namespace {

JobSpec good() {
  JobSpec spec;
  spec.name = "kjv";
  spec.data.train = "/data/kjv.txt";
  return spec;
}

TEST(JobSpec, DerivedFields) {
  JobSpec spec = with_derived_fields(good());
  EXPECT_EQ(spec.model.kv_heads, 4);
  EXPECT_EQ(spec.model.head_dim, 32);
  EXPECT_EQ(spec.model.ffn, 352);  // 8/3 * 128 = 341.3, up to a multiple of 32
  EXPECT_EQ(spec.train.microbatch, 16);
  JobSpec gpt2 = good();
  gpt2.model.family = ModelFamily::kGpt2;
  EXPECT_EQ(with_derived_fields(gpt2).model.ffn, 512);
  EXPECT_EQ(with_derived_fields(spec), spec);
}

TEST(JobSpec, APipelineGetsFourMicrobatchesOrMore) {
  const auto derived = [](std::int64_t batch, std::int64_t stages) {
    JobSpec spec = good();
    spec.train.batch = batch;
    spec.swarm.stages = stages;
    return with_derived_fields(spec).train.microbatch;
  };
  EXPECT_EQ(derived(16, 1), 16);
  EXPECT_EQ(derived(16, 2), 4);
  EXPECT_EQ(derived(16, 0), 4);
  EXPECT_EQ(derived(18, 2), 3);  // 6 of them: 4 does not divide
  EXPECT_EQ(derived(6, 2), 1);
  EXPECT_EQ(derived(13, 2), 1);
  EXPECT_EQ(derived(3, 2), 1);  // as many as there are
  JobSpec given = good();
  given.swarm.stages = 2;
  given.train.microbatch = 8;
  EXPECT_EQ(with_derived_fields(given).train.microbatch, 8);
}

TEST(JobSpec, FieldsOfPipelinesMeanNothingWithOneStage) {
  JobSpec spec = good();
  spec.swarm.schedule = PipelineSchedule::kOneForwardOneBackward;
  spec.swarm.activations = ActivationCodec::kInt8;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_EQ(training_memory(spec), training_memory(good()));
}

TEST(JobSpec, ParameterCountOfGpt2Small) {
  ModelSpec model{ModelFamily::kGpt2, 12, 768, 12, 0, 0, 1024, 50257};
  EXPECT_EQ(parameter_count(model), 124'439'808);  // the published model, tied head
}

TEST(JobSpec, ParameterCountOfLlama7B) {
  ModelSpec model{ModelFamily::kLlama, 32, 4096, 32, 32, 11008, 2048, 32000};
  EXPECT_EQ(parameter_count(model), 6'738'415'616);  // the published model
}

TEST(JobSpec, ParameterCountOfGroupedHeads) {
  ModelSpec model{ModelFamily::kLlama, 32, 4096, 32, 8, 14336, 8192, 128256};
  EXPECT_EQ(parameter_count(model), 8'030'261'248);  // Llama 3 8B
}

TEST(JobSpec, ParameterCountByHand) {
  ModelSpec model{ModelFamily::kLlama, 1, 4, 2, 1, 6, 8, 10};
  // embedding and head 40 + 40, q and o 16 + 16, k and v 8 + 8, feed-forward 3 * 24, norms 3 * 4
  EXPECT_EQ(parameter_count(model), 80 + 32 + 16 + 72 + 12);
}

TEST(JobSpec, ParameterCountOfQwen2WithBiases) {
  ModelSpec model{ModelFamily::kLlama, 24, 896, 14, 2, 4864, 32768, 151936, true};
  model.qkv_bias = true;
  EXPECT_EQ(parameter_count(model), 494'032'768);  // Qwen2 0.5B
}

TEST(JobSpec, ParameterCountOfHeadsOfAnotherSize) {
  ModelSpec model{ModelFamily::kLlama, 1, 4, 2, 1, 6, 8, 10};
  model.head_dim = 6;
  // q and o 4 * 12 each, k and v 4 * 6 each
  EXPECT_EQ(parameter_count(model), 80 + 96 + 48 + 72 + 12);
  model.qkv_bias = true;
  EXPECT_EQ(parameter_count(model), 80 + 96 + 48 + 72 + 12 + 12 + 6 + 6);
}

TEST(JobSpec, TrainingMemoryHasSevenVectorsAndActivations) {
  JobSpec spec = good();
  const auto whole = training_memory(spec).count();
  EXPECT_GT(whole, parameter_count(spec.model) * 7 * 4);
  spec.train.microbatch = 1;
  EXPECT_LT(training_memory(spec).count(), whole);
  spec.model = {ModelFamily::kLlama, 1024, 65536, 64, 64, 1 << 20, 1 << 20, 1 << 22};
  spec.train.batch = spec.train.microbatch = 65536;
  EXPECT_GT(training_memory(spec).count(), 0);  // saturates instead of overflowing
}

TEST(JobSpec, TrainingMemoryCountsTheResidualAndKeptContributions) {
  JobSpec spec = good();
  const auto plain = training_memory(spec).count();
  const auto vector = parameter_count(spec.model) * 4;
  change_sync(spec, [](SyncSpec& sync) { sync.aggregator = Aggregator::kTrimmedMean; });
  EXPECT_EQ(training_memory(spec).count() - plain, vector);
  spec.sync = {.topology = Topology::kAllgather, .codec = CodecKind::kSparse2};
  EXPECT_EQ(training_memory(spec).count() - plain, vector);
}

// A token of a block keeps 8 * 128 + 4 * 128 + 4 * 352 + 2 * 4 * 128 values, its input 128.
TEST(JobSpec, RecomputedBlocksKeepTheirInput) {
  JobSpec spec = with_derived_fields(good());
  const auto kept = training_memory(spec).count();
  spec.swarm.recompute = Recompute::kRecompute;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  const std::int64_t tokens = 16 * 128, block = 12 * 128 + 4 * spec.model.ffn + 8 * 128;
  EXPECT_EQ(kept - training_memory(spec).count(), 4 * tokens * (4 * (block - 128) - block));
}

TEST(JobSpec, EagerUpdatesNeedTheOthersAndWhereTheStepsBegan) {
  JobSpec spec = good();
  const auto plain = training_memory(spec).count();
  const auto vector = parameter_count(spec.model) * 4;
  change_sync(spec, [](SyncSpec& sync) {
    sync.eager = true;
    sync.overlap_steps = Steps(5);
  });
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_EQ(training_memory(spec).count() - plain, 3 * vector) << "one while it estimates";
  change_sync(spec, [](SyncSpec& sync) { sync.fragments = 2; });
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_EQ(training_memory(spec).count() - plain, vector * 5 / 2);
}

TEST(JobSpec, ShardedMomentumIsTwoOfManyParts) {
  JobSpec spec = good();
  const auto whole = training_memory(spec).count();
  const auto vector = parameter_count(spec.model) * 4;
  change_sync(spec, [](SyncSpec& sync) { sync.outer_state = OuterState::kSharded; });
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_EQ(training_memory(spec).count(), whole);  // one or two replicas keep all of it
  spec.swarm.min_replicas = 8;
  EXPECT_EQ(whole - training_memory(spec).count(), vector * 3 / 4);
}

TEST(JobSpec, MuonNeedsLessMemoryAndIsRefusedWithDdp) {
  JobSpec spec = good();
  spec.model.layers = 12;
  const Bytes adamw = training_memory(spec);
  spec.train.optimizer = Optimizer::kMuon;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_LT(training_memory(spec), adamw);
  JobSpec ddp = default_spec(SyncAlgorithm::kDdp);
  ddp.name = spec.name, ddp.model = spec.model, ddp.data = spec.data;
  EXPECT_THAT(validate(ddp), testing::IsEmpty());
  ddp.train.optimizer = Optimizer::kMuon;
  const auto problems = validate(ddp);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].pointer, "/train/optimizer");
  EXPECT_THAT(problems[0].detail, testing::HasSubstr("'diloco'"));
}

TEST(JobSpec, DdpCannotBeJoinedWithFreshMoments) {
  JobSpec spec = good();
  spec.train.join = JoinMoments::kFresh;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  JobSpec ddp = default_spec(SyncAlgorithm::kDdp);
  ddp.name = spec.name, ddp.model = spec.model, ddp.data = spec.data;
  ddp.train.join = JoinMoments::kMoments;
  EXPECT_THAT(validate(ddp), testing::IsEmpty());
  ddp.train.join = JoinMoments::kFresh;
  const auto problems = validate(ddp);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].pointer, "/train/join");
  EXPECT_THAT(problems[0].detail, testing::HasSubstr("'moments'"));
}

TEST(JobSpec, TheLastRoundMayBeShorter) {
  JobSpec spec = good();
  EXPECT_EQ(round_count(spec), 20);
  spec.train.steps = Steps(1001);
  EXPECT_EQ(round_count(spec), 21);
}

TEST(JobSpec, RoundsByTimeHaveNoNumber) {
  JobSpec spec = good();
  change_sync(spec, [](SyncSpec& sync) { sync.every_s = 600; });
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_EQ(round_count(spec), 0);
  EXPECT_EQ(with_derived_fields(spec).sync.every, spec.train.steps);
}

TEST(JobSpec, Words) {
  EXPECT_STREQ(to_string(ModelFamily::kGpt2), "gpt2");
  EXPECT_STREQ(to_string(Tokenizer::kUint16), "uint16");
  EXPECT_STREQ(to_string(Schedule::kConstant), "constant");
  EXPECT_STREQ(to_string(Precision::kBf16), "bf16");
  EXPECT_STREQ(to_string(SyncAlgorithm::kDiloco), "diloco");
  EXPECT_STREQ(to_string(Topology::kButterfly), "butterfly");
  EXPECT_STREQ(to_string(CodecKind::kInt8), "int8");
  EXPECT_STREQ(to_string(CodecKind::kE3m0), "e3m0");
  EXPECT_STREQ(to_string(CodecKind::kE5m2), "e5m2");
}

}  // namespace
}  // namespace shoal
