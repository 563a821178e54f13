// One test per rule: the default of a named job is good, and one changed field is refused by its
// pointer.
#include "job/job_spec.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

JobSpec good() {
  JobSpec spec;
  spec.name = "kjv";
  spec.data.train = "/data/kjv.txt";
  return spec;
}

std::vector<std::string> pointers(const JobSpec& spec) {
  std::vector<std::string> all;
  for (const auto& error : validate(spec)) all.push_back(error.pointer);
  return all;
}

TEST(JobSpec, DefaultsAreGood) { EXPECT_THAT(validate(good()), testing::IsEmpty()); }

struct Refusal {
  const char* pointer;
  const char* detail;  // part of it
  std::function<void(JobSpec&)> change;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.pointer << " " << refusal.detail;
}

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, ByPointerWithWhatWasGiven) {
  JobSpec spec = good();
  GetParam().change(spec);
  const auto errors = validate(spec);
  ASSERT_EQ(pointers(spec), std::vector<std::string>{GetParam().pointer});
  EXPECT_THAT(errors[0].detail, testing::HasSubstr(GetParam().detail));
}

const Refusal kModelRefusals[] = {
    {"/name", "is required", [](JobSpec& s) { s.name = ""; }},
    {"/name", "'Kjv'", [](JobSpec& s) { s.name = "Kjv"; }},
    {"/name", "'-kjv'", [](JobSpec& s) { s.name = "-kjv"; }},
    {"/name", "1 to 63", [](JobSpec& s) { s.name = std::string(64, 'a'); }},
    {"/name", "aaaa…'", [](JobSpec& s) { s.name = std::string(10'000, 'a'); }},
    {"/model/layers", "from 1 to 1024, got 0", [](JobSpec& s) { s.model.layers = 0; }},
    {"/model/heads", "must divide hidden (128), got 3", [](JobSpec& s) { s.model.heads = 3; }},
    {"/model/heads", "128 / 128 = 1", [](JobSpec& s) { s.model.heads = 128; }},
    {"/model/heads", "from 1 to", [](JobSpec& s) { s.model.heads = 0; }},
    {"/model/kv_heads", "divisor of heads (4), got 3", [](JobSpec& s) { s.model.kv_heads = 3; }},
    {"/model/kv_heads", "divisor of heads (4), got 8", [](JobSpec& s) { s.model.kv_heads = 8; }},
    {"/model/kv_heads", "no grouped heads, got 2",
     [](JobSpec& s) { s.model.family = ModelFamily::kGpt2, s.model.kv_heads = 2; }},
    {"/model/ffn", "got -1", [](JobSpec& s) { s.model.ffn = -1; }},
    {"/model/context", "got 0", [](JobSpec& s) { s.model.context = 0; }},
    {"/model/vocab", "at least 256 with data.tokenizer = 'bytes', got 255",
     [](JobSpec& s) { s.model.vocab = 255; }},
    {"/model/vocab", "at most 65536 with data.tokenizer = 'uint16', got 65537",
     [](JobSpec& s) { s.data.tokenizer = Tokenizer::kUint16, s.model.vocab = 65537; }},
    {"/data/train", "is required", [](JobSpec& s) { s.data.train = ""; }},
    {"/data/val_fraction", "above 0 and below 1, got 0",
     [](JobSpec& s) { s.data.val_fraction = 0; }},
    {"/data/val_fraction", "got 1", [](JobSpec& s) { s.data.val_fraction = 1; }},
};

const Refusal kTrainRefusals[] = {
    {"/train/batch", "got 0", [](JobSpec& s) { s.train.batch = 0; }},
    {"/train/microbatch", "divisor of batch (16), got 5",
     [](JobSpec& s) { s.train.microbatch = 5; }},
    {"/train/microbatch", "got -1", [](JobSpec& s) { s.train.microbatch = -1; }},
    {"/train/min_lr", "from 0 to lr (0.001), got 0.01", [](JobSpec& s) { s.train.min_lr = 0.01; }},
    {"/train/lr", "got -1",
     [](JobSpec& s) { s.train.lr = -1, s.train.schedule = Schedule::kConstant; }},
    {"/train/lr", "got nan",
     [](JobSpec& s) { s.train.lr = NAN, s.train.schedule = Schedule::kConstant; }},
    {"/train/warmup", "below steps (1000), is 100 unless set, got 1000",
     [](JobSpec& s) { s.train.warmup = Steps(1000); }},
    {"/train/weight_decay", "got -0.1", [](JobSpec& s) { s.train.weight_decay = -0.1; }},
    {"/train/betas/0", "got 1", [](JobSpec& s) { s.train.beta1 = 1; }},
    {"/train/betas/1", "got -0.5", [](JobSpec& s) { s.train.beta2 = -0.5; }},
    {"/train/clip", "got inf", [](JobSpec& s) { s.train.clip = INFINITY; }},
    {"/train/seed", "got 9223372036854775808", [](JobSpec& s) { s.train.seed = 1ull << 63; }},
};

void eager(JobSpec& s) { s.sync.eager = true, s.sync.overlap_steps = Steps(5); }

const Refusal kClusterRefusals[] = {
    {"/sync/every", "from 1 to train.steps (1000), got 0",
     [](JobSpec& s) { s.sync.every = Steps(0); }},
    {"/sync/every", "got 1001", [](JobSpec& s) { s.sync.every = Steps(1001); }},
    {"/sync/every", "must be 1 with sync.algorithm = 'ddp'",
     [](JobSpec& s) { s.sync = default_spec(SyncAlgorithm::kDdp).sync, s.sync.every = Steps(50); }},
    {"/sync/every", "got a time",
     [](JobSpec& s) { s.sync = default_spec(SyncAlgorithm::kDdp).sync, s.sync.every_s = 60; }},
    {"/sync/every", "swarm.stages other than 1, got a time",
     [](JobSpec& s) { s.sync.every_s = 60, s.swarm.stages = 2; }},
    {"/sync/every", "from 1 to 604800, got -1", [](JobSpec& s) { s.sync.every_s = -1; }},
    {"/sync/outer/lr", "must be 1 with sync.algorithm = 'local_sgd', which only averages",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kLocalSgd, s.sync.outer = {0.7, 0};
     }},
    {"/sync/outer/momentum", "must be 0 with sync.algorithm = 'ddp'",
     [](JobSpec& s) {
       s.sync = default_spec(SyncAlgorithm::kDdp).sync, s.sync.outer.momentum = 0.9;
     }},
    {"/sync/balance", "routers share the batch",
     [](JobSpec& s) { s.sync.balance = Balance::kSpeed, s.swarm.stages = 2; }},
    {"/sync/balance", "everybody takes every step",
     [](JobSpec& s) {
       s.sync = default_spec(SyncAlgorithm::kDdp).sync, s.sync.balance = Balance::kSpeed;
     }},
    {"/sync/outer/lr", "got 0", [](JobSpec& s) { s.sync.outer.lr = 0; }},
    {"/sync/outer/momentum", "got 1", [](JobSpec& s) { s.sync.outer.momentum = 1; }},
    {"/sync/topology",
     "'allgather' or 'auto' with sync.codec = 'sparse2', which has no sum, got 'ring'",
     [](JobSpec& s) {
       s.sync.codec = CodecKind::kSparse2, s.sync.topology = Topology::kRing, s.sync.outer = {1, 0};
     }},
    {"/sync/topology", "'allgather' is for 'sparse2', got 'allgather'",
     [](JobSpec& s) { s.sync.topology = Topology::kAllgather; }},
    {"/sync/aggregator", "'mean' with sync.topology = 'ring'",
     [](JobSpec& s) {
       s.sync.topology = Topology::kRing, s.sync.aggregator = Aggregator::kTrimmedMean;
     }},
    {"/sync/aggregator", "'mean' with sync.codec = 'sparse2'",
     [](JobSpec& s) {
       s.sync.codec = CodecKind::kSparse2, s.sync.topology = Topology::kAuto;
       s.sync.outer = {1, 0}, s.sync.aggregator = Aggregator::kCenteredClip;
     }},
    {"/sync/feedback", "from 0 to below 1, got 1", [](JobSpec& s) { s.sync.feedback = 1; }},
    {"/sync/outer/momentum",
     "set sync.outer.lr = 1 and sync.outer.momentum = 0, or sync.feedback = 0",
     [](JobSpec& s) {
       s.sync.codec = CodecKind::kSparse2, s.sync.topology = Topology::kAllgather;
     }},
    {"/sync/fragments", "divide sync.every (50): a round is every / fragments inner steps, got 3",
     [](JobSpec& s) { s.sync.fragments = 3; }},
    {"/sync/fragments", "at most model.layers (4)", [](JobSpec& s) { s.sync.fragments = 5; }},
    {"/sync/fragments", "from 1 to 1024, got 0", [](JobSpec& s) { s.sync.fragments = 0; }},
    {"/sync/fragments", "must be 1 with sync.algorithm = 'none'",
     [](JobSpec& s) { s.sync.fragments = 2, s.sync.algorithm = SyncAlgorithm::kNone; }},
    {"/sync/fragments", "must be 1 with swarm.stages other than 1",
     [](JobSpec& s) { s.sync.fragments = 2, s.swarm.stages = 2; }},
    {"/sync/fragments", "'speed'",
     [](JobSpec& s) { s.sync.fragments = 2, s.sync.balance = Balance::kSpeed; }},
    {"/sync/fragments", "whose residual is of the whole vector",
     [](JobSpec& s) {
       s.sync.fragments = 2, s.sync.codec = CodecKind::kSparse2;
       s.sync.topology = Topology::kAllgather, s.sync.feedback = 0;
     }},
    {"/sync/overlap_steps", "below sync.every / sync.fragments (25): a result is adopted before",
     [](JobSpec& s) { s.sync.fragments = 2, s.sync.overlap_steps = Steps(25); }},
    {"/sync/overlap_steps", "got -1", [](JobSpec& s) { s.sync.overlap_steps = Steps(-1); }},
    {"/sync/overlap_steps", "must be 0 with swarm.stages",
     [](JobSpec& s) { s.sync.overlap_steps = Steps(1), s.swarm.stages = 2; }},
    {"/sync/blend", "from 0 to below 1, got 1",
     [](JobSpec& s) { s.sync.blend = 1, s.sync.overlap_steps = Steps(1); }},
    {"/sync/blend", "must be 0 with sync.overlap_steps = 0",
     [](JobSpec& s) { s.sync.blend = 0.5; }},
    {"/sync/eager", "must be false with sync.overlap_steps = 0",
     [](JobSpec& s) { s.sync.eager = true; }},
    {"/sync/blend", "must be 0 with sync.eager = true, which keeps all",
     [](JobSpec& s) { eager(s), s.sync.blend = 0.5; }},
    {"/sync/eager", "must be false with sync.aggregator = 'trimmed_mean'",
     [](JobSpec& s) { eager(s), s.sync.aggregator = Aggregator::kTrimmedMean; }},
    {"/sync/eager", "must be false with sync.outer_state = 'sharded'",
     [](JobSpec& s) { eager(s), s.sync.outer_state = OuterState::kSharded; }},
    {"/sync/overlap_steps", "must be 0 with swarm.stages",
     [](JobSpec& s) { eager(s), s.swarm.stages = 2; }},
    {"/sync/quorum", "must be 0 with sync.algorithm = 'diloco', where a round waits for everybody",
     [](JobSpec& s) { s.sync.quorum = 2; }},
    {"/sync/quorum", "from 0 to 10000, got -1",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.quorum = -1; }},
    {"/sync/quorum", "from 0 to 4, got 5",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.quorum = 5, s.swarm.max_replicas = 4;
     }},
    {"/sync/every", "a number of inner steps with sync.algorithm = 'async', got a time",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.every_s = 60; }},
    {"/sync/balance", "nobody waits for a slower one, got 'speed'",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.balance = Balance::kSpeed;
     }},
    {"/sync/topology", "'butterfly', 'ring' or 'auto' with sync.algorithm = 'async'",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.topology = Topology::kParamServer;
     }},
    {"/sync/topology", "the codec a dense one, got 'auto' and 'sparse2'",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.topology = Topology::kAuto;
       s.sync.codec = CodecKind::kSparse2;
     }},
    {"/sync/fragments", "must be 1 with sync.algorithm = 'async'",
     [](JobSpec& s) { s.sync.fragments = 2, s.sync.algorithm = SyncAlgorithm::kAsync; }},
    {"/sync/overlap_steps", "must be 0 with sync.algorithm = 'async'",
     [](JobSpec& s) { s.sync.overlap_steps = Steps(2), s.sync.algorithm = SyncAlgorithm::kAsync; }},
    {"/swarm/stages", "must be 1 with sync.algorithm = 'async'",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kAsync, s.swarm.stages = 2; }},
    {"/sync/outer_state", "must be 'replicated' with sync.algorithm = 'none'",
     [](JobSpec& s) {
       s.sync.outer_state = OuterState::kSharded, s.sync.algorithm = SyncAlgorithm::kNone;
     }},
    {"/sync/outer_state", "with sync.outer.momentum = 0: there is none to shard, got 'sharded'",
     [](JobSpec& s) { s.sync.outer_state = OuterState::kSharded, s.sync.outer.momentum = 0; }},
    {"/sync/outer_state", "with sync.topology = 'ring': the owners of a butterfly's parts",
     [](JobSpec& s) {
       s.sync.outer_state = OuterState::kSharded, s.sync.topology = Topology::kRing;
     }},
    {"/sync/outer_state", "with sync.codec = 'sparse2'",
     [](JobSpec& s) {
       s.sync.outer_state = OuterState::kSharded, s.sync.codec = CodecKind::kSparse2;
       s.sync.topology = Topology::kAuto, s.sync.feedback = 0;
     }},
    {"/sync/outer_state", "with sync.fragments above 1: parts are of the whole vector",
     [](JobSpec& s) { s.sync.outer_state = OuterState::kSharded, s.sync.fragments = 2; }},
    {"/swarm/stages", "from 1 to model.layers (4)", [](JobSpec& s) { s.swarm.stages = 5; }},
    {"/swarm/schedule", "with swarm.stages = 1, where no step waits for another stage, got '2bw'",
     [](JobSpec& s) { s.swarm.schedule = PipelineSchedule::kTwoBufferedWeights; }},
    {"/swarm/stages", "got -1", [](JobSpec& s) { s.swarm.stages = -1; }},
    {"/swarm/stages", "'none', which trains on one agent, got 2",
     [](JobSpec& s) { s.swarm.stages = 2, s.sync.algorithm = SyncAlgorithm::kNone; }},
    {"/swarm/stages", "'none', which trains on one agent, got 'auto'",
     [](JobSpec& s) { s.swarm.stages = 0, s.sync.algorithm = SyncAlgorithm::kNone; }},
    {"/swarm/min_replicas", "got 0", [](JobSpec& s) { s.swarm.min_replicas = 0; }},
    {"/swarm/max_replicas", "from min_replicas (3) to 10000, got 2",
     [](JobSpec& s) { s.swarm.min_replicas = 3, s.swarm.max_replicas = 2; }},
    {"/swarm/min_replicas", "'none', which trains on one agent, got 2",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kNone, s.swarm.min_replicas = 2; }},
    {"/swarm/max_replicas", "'none', which trains on one agent, got 4",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kNone, s.swarm.max_replicas = 4; }},
    {"/checkpoint/every_rounds", "got -1", [](JobSpec& s) { s.checkpoint.every_rounds = -1; }},
    {"/checkpoint/keep", "got 0", [](JobSpec& s) { s.checkpoint.keep = 0; }},
    {"/eval/every_rounds", "got -1", [](JobSpec& s) { s.eval.every_rounds = -1; }},
    {"/eval/batches", "got 0", [](JobSpec& s) { s.eval.batches = 0; }},
};

void in_groups(JobSpec& s, Topology topology) {
  s.sync.topology = topology;
  s.sync.codec = CodecKind::kFp32;
  s.sync.outer.momentum = 0.5;
}

TEST(JobSpec, RoundsInGroups) {
  for (const Topology topology : {Topology::kMoshpit, Topology::kGossip}) {
    JobSpec spec = good();
    in_groups(spec, topology);
    EXPECT_THAT(validate(spec), testing::IsEmpty());
    spec.sync.algorithm = SyncAlgorithm::kLocalSgd;
    spec.sync.outer = {1, 0};
    EXPECT_THAT(validate(spec), testing::IsEmpty());
  }
  JobSpec spec = good();
  in_groups(spec, Topology::kMoshpit);
  spec.sync.outer.momentum = 0.9;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
}

const Refusal kGroupRefusals[] = {
    {"/sync/algorithm", "'diloco' or 'local_sgd' with sync.topology = 'gossip', got 'none'",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kNone; }},
    {"/sync/every", "a number of inner steps", [](JobSpec& s) { s.sync.every_s = 60; }},
    {"/sync/balance", "got 'speed'", [](JobSpec& s) { s.sync.balance = Balance::kSpeed; }},
    {"/sync/codec", "small differences matter",
     [](JobSpec& s) { s.sync.codec = CodecKind::kBf16; }},
    {"/sync/aggregator", "'mean' with sync.topology = 'gossip'",
     [](JobSpec& s) { s.sync.aggregator = Aggregator::kTrimmedMean; }},
    {"/sync/fragments", "must be 1", [](JobSpec& s) { s.sync.fragments = 2; }},
    {"/sync/overlap_steps", "must be 0", [](JobSpec& s) { s.sync.overlap_steps = Steps(2); }},
    {"/sync/outer_state", "'replicated'",
     [](JobSpec& s) { s.sync.outer_state = OuterState::kSharded; }},
    {"/swarm/stages", "must be 1", [](JobSpec& s) { s.swarm.stages = 2; }},
    {"/sync/outer/momentum", "at most 0.5 (with more replicas drift apart)",
     [](JobSpec& s) { s.sync.outer.momentum = 0.6; }},
    {"/sync/outer/momentum", "at most 0.9",
     [](JobSpec& s) { s.sync.topology = Topology::kMoshpit, s.sync.outer.momentum = 0.95; }},
};

class RefusedInGroups : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedInGroups, ByPointerWithWhatWasGiven) {
  JobSpec spec = good();
  in_groups(spec, Topology::kGossip);
  GetParam().change(spec);
  const auto errors = validate(spec);
  const auto refused = std::find_if(errors.begin(), errors.end(), [](const FieldError& error) {
    return error.pointer == GetParam().pointer &&
           error.detail.find(GetParam().detail) != std::string::npos;
  });
  EXPECT_NE(refused, errors.end());
}

INSTANTIATE_TEST_SUITE_P(Groups, RefusedInGroups, testing::ValuesIn(kGroupRefusals));
INSTANTIATE_TEST_SUITE_P(Model, Refused, testing::ValuesIn(kModelRefusals));
INSTANTIATE_TEST_SUITE_P(Train, Refused, testing::ValuesIn(kTrainRefusals));
INSTANTIATE_TEST_SUITE_P(Cluster, Refused, testing::ValuesIn(kClusterRefusals));

TEST(JobSpec, EveryBrokenRuleIsToldInTheOrderOfTheFields) {
  JobSpec spec = good();
  spec.name = "";
  spec.train.batch = 0;
  spec.swarm.stages = 5;
  EXPECT_EQ(pointers(spec), (std::vector<std::string>{"/name", "/train/batch", "/swarm/stages"}));
}

TEST(JobSpec, AsManyStagesAsLayersOrAutoAreGood) {
  JobSpec spec = good();
  for (const std::int64_t stages : {0, 1, 2, 4}) {
    spec.swarm.stages = stages;
    EXPECT_THAT(validate(spec), testing::IsEmpty()) << stages;
  }
}

TEST(JobSpec, ATiedHeadIsRefusedInAPipeline) {
  JobSpec spec = good();
  spec.model.tie_embeddings = true;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  spec.swarm.stages = 2;
  EXPECT_EQ(pointers(spec), std::vector<std::string>{"/model/tie_embeddings"});
}

TEST(JobSpec, NoneWithOneReplicaIsGood) {
  JobSpec spec = good();
  spec.sync.algorithm = SyncAlgorithm::kNone;
  spec.swarm.max_replicas = 1;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
}

TEST(JobSpec, ConstantScheduleDoesNotLookAtMinLr) {
  JobSpec spec = good();
  spec.train.schedule = Schedule::kConstant;
  spec.train.lr = 1e-5;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
}

TEST(JobSpec, DerivedFields) {
  JobSpec spec = with_derived_fields(good());
  EXPECT_EQ(spec.model.kv_heads, 4);
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
  spec.swarm.recompute = Recompute::kRecompute;
  spec.swarm.schedule = PipelineSchedule::kOneForwardOneBackward;
  spec.swarm.wiring = WiringPolicy::kSticky;
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
  spec.sync.aggregator = Aggregator::kTrimmedMean;
  EXPECT_EQ(training_memory(spec).count() - plain, vector);
  spec.sync.aggregator = Aggregator::kMean;
  spec.sync.codec = CodecKind::kSparse2;
  EXPECT_EQ(training_memory(spec).count() - plain, vector);
}

TEST(JobSpec, EagerUpdatesNeedTheOthersAndWhereTheStepsBegan) {
  JobSpec spec = good();
  const auto plain = training_memory(spec).count();
  const auto vector = parameter_count(spec.model) * 4;
  eager(spec);
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_EQ(training_memory(spec).count() - plain, 2 * vector);
  spec.sync.fragments = 2;
  EXPECT_THAT(validate(spec), testing::IsEmpty());
  EXPECT_EQ(training_memory(spec).count() - plain, vector * 3 / 2);
}

TEST(JobSpec, ShardedMomentumIsTwoOfManyParts) {
  JobSpec spec = good();
  const auto whole = training_memory(spec).count();
  const auto vector = parameter_count(spec.model) * 4;
  spec.sync.outer_state = OuterState::kSharded;
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

TEST(JobSpec, TheLastRoundMayBeShorter) {
  JobSpec spec = good();
  EXPECT_EQ(round_count(spec), 20);
  spec.train.steps = Steps(1001);
  EXPECT_EQ(round_count(spec), 21);
}

TEST(JobSpec, TheDefaultsOfEveryAlgorithmAreGood) {
  for (const SyncAlgorithm algorithm : {SyncAlgorithm::kNone, SyncAlgorithm::kDiloco,
                                        SyncAlgorithm::kLocalSgd, SyncAlgorithm::kDdp}) {
    JobSpec spec = default_spec(algorithm);
    spec.name = "a";
    spec.data.train = "/x";
    EXPECT_THAT(validate(spec), testing::IsEmpty()) << to_string(algorithm);
    EXPECT_EQ(spec.sync.algorithm, algorithm);
  }
  EXPECT_EQ(default_spec(SyncAlgorithm::kDiloco), JobSpec());
  const JobSpec ddp = default_spec(SyncAlgorithm::kDdp);
  EXPECT_EQ(ddp.sync.codec, CodecKind::kFp32);
  EXPECT_EQ(ddp.checkpoint.every_rounds, 500);
  EXPECT_EQ(ddp.eval.every_rounds, 50);
}

TEST(JobSpec, RoundsByTimeHaveNoNumber) {
  JobSpec spec = good();
  spec.sync.every_s = 600;
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
}

}  // namespace
}  // namespace shoal
