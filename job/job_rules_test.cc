// One test per rule: the default of a named job is good, and one changed field is refused by its
// pointer.
#include "job/job_rules.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

JobSpec good() {
  JobSpec options;
  options.name = "kjv";
  options.data.train = "/data/kjv.txt";
  return options;
}

std::vector<std::string> pointers(const JobSpec& options) {
  std::vector<std::string> all;
  for (const auto& error : validate(options)) all.push_back(error.pointer);
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
  JobSpec options = good();
  GetParam().change(options);
  const auto errors = validate(options);
  ASSERT_EQ(pointers(options), std::vector<std::string>{GetParam().pointer});
  EXPECT_THAT(errors[0].detail, testing::HasSubstr(GetParam().detail));
}

const Refusal kModelRefusals[] = {
    {"/name", "is required", [](JobSpec& s) { s.name = ""; }},
    {"/name", "'Kjv'", [](JobSpec& s) { s.name = "Kjv"; }},
    {"/name", "'-kjv'", [](JobSpec& s) { s.name = "-kjv"; }},
    {"/name", "1 to 63", [](JobSpec& s) { s.name = std::string(64, 'a'); }},
    {"/name", "aaaa…'", [](JobSpec& s) { s.name = std::string(10'000, 'a'); }},
    {"/description", "1000 bytes, got 1001",
     [](JobSpec& s) { s.description = std::string(1001, 'a'); }},
    {"/description", "control characters", [](JobSpec& s) { s.description = "\x1b[31m"; }},
    {"/model/layers", "from 1 to 1024, got 0", [](JobSpec& s) { s.model.layers = 0; }},
    {"/model/heads", "must divide hidden (128), or set model.head_dim, got 3",
     [](JobSpec& s) { s.model.heads = 3; }},
    {"/model/heads", "128 / 128 = 1", [](JobSpec& s) { s.model.heads = 128; }},
    {"/model/heads", "from 1 to", [](JobSpec& s) { s.model.heads = 0; }},
    {"/model/kv_heads", "divisor of heads (4), got 3", [](JobSpec& s) { s.model.kv_heads = 3; }},
    {"/model/kv_heads", "divisor of heads (4), got 8", [](JobSpec& s) { s.model.kv_heads = 8; }},
    {"/model/kv_heads", "no grouped heads, got 2",
     [](JobSpec& s) { s.model.family = ModelFamily::kGpt2, s.model.kv_heads = 2; }},
    {"/model/head_dim", "even for rotary positions, got 15",
     [](JobSpec& s) { s.model.head_dim = 15; }},
    {"/model/head_dim", "from 0 to 4096, got 4098", [](JobSpec& s) { s.model.head_dim = 4098; }},
    {"/model/head_dim", "must be 0 or hidden / heads (32) with model.family = 'gpt2', got 16",
     [](JobSpec& s) { s.model.family = ModelFamily::kGpt2, s.model.head_dim = 16; }},
    {"/model/qkv_bias", "always has biases",
     [](JobSpec& s) { s.model.family = ModelFamily::kGpt2, s.model.qkv_bias = true; }},
    {"/model/norm_eps", "above 0 and at most 0.1, got 0", [](JobSpec& s) { s.model.norm_eps = 0; }},
    {"/model/rope/theta", "above 1 and at most 1e12, got 1",
     [](JobSpec& s) { s.model.rope.theta = 1; }},
    {"/model/rope/factor", "from 1 to 1e6, got 0.5", [](JobSpec& s) { s.model.rope.factor = 0.5; }},
    {"/model/rope/low_freq_factor", "above 0 and at most 1e6, got 0",
     [](JobSpec& s) { s.model.rope.low_freq_factor = 0; }},
    {"/model/rope/high_freq_factor", "above low_freq_factor (5) and at most 1e6, got 4",
     [](JobSpec& s) { s.model.rope.low_freq_factor = 5; }},
    {"/model/rope/original_context", "got 0",
     [](JobSpec& s) { s.model.rope.original_context = 0; }},
    {"/model/init", "must be 'hf:ROOT:PATH' or 'hf:/PATH'",
     [](JobSpec& s) { s.model.init = "llama"; }},
    {"/model/init", "got 'hf:models/llama'", [](JobSpec& s) { s.model.init = "hf:models/llama"; }},
    {"/model/init", "such as 'ckpt_7', got 'ckpt_07'",
     [](JobSpec& s) { s.model.init = "ckpt_07"; }},
    {"/model/init", "got 'hf:'", [](JobSpec& s) { s.model.init = "hf:"; }},
    {"/model/init", "at most 4096 bytes, got 5003",
     [](JobSpec& s) { s.model.init = "hf:" + std::string(5000, 'x'); }},
    {"/model/ffn", "got -1", [](JobSpec& s) { s.model.ffn = -1; }},
    {"/model/context", "got 0", [](JobSpec& s) { s.model.context = 0; }},
    {"/model/vocab", "at least 256 with data.tokenizer = 'bytes', got 255",
     [](JobSpec& s) { s.model.vocab = 255; }},
    {"/model/vocab", "at most 65536 with data.tokenizer = 'uint16', got 65537",
     [](JobSpec& s) { s.data.tokenizer = Tokenizer::kUint16, s.model.vocab = 65537; }},
    {"/data/train", "is required", [](JobSpec& s) { s.data.train = ""; }},
    {"/data/train", "must be left out beside", [](JobSpec& s) { s.data.dataset = "books"; }},
    {"/data/mixture", "must be left out beside",
     [](JobSpec& s) {
       s.data = {.dataset = "books", .mixture = {{"code", 1}}};
     }},
    {"/data/dataset", "got 'Books'", [](JobSpec& s) { s.data = {.dataset = "Books"}; }},
    {"/data/dataset", "got 'books@12'", [](JobSpec& s) { s.data = {.dataset = "books@12"}; }},
    {"/data/mixture", "got '-x'",
     [](JobSpec& s) {
       s.data = {.mixture = {{"-x", 1}}};
     }},
    {"/data/mixture", "a weight above 0 and at most 1e6, got 0",
     [](JobSpec& s) {
       s.data = {.mixture = {{"books", 0}}};
     }},
    {"/data/mixture", "a thousandth of the sum of the weights, got 1",
     [](JobSpec& s) {
       s.data = {.mixture = {{"books", 1}, {"code", 1000}}};
     }},
    {"/data/mixture", "must name each dataset once",
     [](JobSpec& s) {
       s.data = {.mixture = {{"books", 1}, {"books@" + std::string(64, 'a'), 1}}};
     }},
    {"/data/mixture", "at most 64 datasets, got 65",
     [](JobSpec& s) {
       s.data = {};
       for (int i = 0; i < 65; ++i) s.data.mixture.push_back({"d" + std::to_string(i), 1});
     }},
    {"/data/val_fraction", "above 0 and below 1, got 0",
     [](JobSpec& s) { s.data.val_fraction = 0; }},
    {"/data/val_fraction", "got 1", [](JobSpec& s) { s.data.val_fraction = 1; }},
    {"/data/tokenizer_file", "at most 4096 characters",
     [](JobSpec& s) { s.data.tokenizer_file = std::string(4097, 'x'); }},
    {"/data/tokenizer_file", "left out with data.tokenizer = 'bytes'",
     [](JobSpec& s) { s.data.tokenizer_file = "corpus:tokenizer.json"; }},
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
    {"/train/warmup", "less than train.steps (1000); the default is 100, got 1000",
     [](JobSpec& s) { s.train.warmup = Steps(1000); }},
    {"/train/weight_decay", "got -0.1", [](JobSpec& s) { s.train.weight_decay = -0.1; }},
    {"/train/betas/0", "got 1", [](JobSpec& s) { s.train.beta1 = 1; }},
    {"/train/betas/1", "got -0.5", [](JobSpec& s) { s.train.beta2 = -0.5; }},
    {"/train/clip", "got inf", [](JobSpec& s) { s.train.clip = INFINITY; }},
    {"/train/seed", "got 9223372036854775808", [](JobSpec& s) { s.train.seed = 1ull << 63; }},
    {"/train/continue_from", "got 'mine'", [](JobSpec& s) { s.train.continue_from = "mine"; }},
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
    {"/sync/outer/method", "must be 'nesterov' with sync.algorithm = 'local_sgd', which only",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kLocalSgd, s.sync.outer = {1, 0, OuterMethod::kSgd};
     }},
    {"/sync/outer/method", "with sync.algorithm = 'async', whose outer step is delayed Nesterov",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.outer.method = OuterMethod::kSgd;
     }},
    {"/sync/outer_state", "must be 'replicated' with sync.outer.method = 'sgd'",
     [](JobSpec& s) {
       s.sync.outer_state = OuterState::kSharded, s.sync.outer.method = OuterMethod::kSgd;
     }},
    {"/sync/outer/method", "'nesterov' or 'sgd' with sync.codec = 'sparse2'",
     [](JobSpec& s) {
       s.sync.codec = CodecKind::kSparse2, s.sync.topology = Topology::kAuto;
       s.sync.outer.method = OuterMethod::kAdam;
     }},
    {"/sync/outer/beta1", "got 1", [](JobSpec& s) { s.sync.outer.beta1 = 1; }},
    {"/sync/outer/beta2", "got -0.5", [](JobSpec& s) { s.sync.outer.beta2 = -0.5; }},
    {"/sync/outer/eps", "above 0 and at most 1, got 0", [](JobSpec& s) { s.sync.outer.eps = 0; }},
    {"/sync/balance", "routers share the batch",
     [](JobSpec& s) { s.sync.balance = Balance::kSpeed, s.swarm.stages = 2; }},
    {"/sync/balance", "every replica takes every step",
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
    {"/sync/feedback", "at least 0 and below 1, got 1", [](JobSpec& s) { s.sync.feedback = 1; }},
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
    {"/sync/blend", "at least 0 and below 1, got 1",
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
    {"/sync/quorum",
     "must be 0 with sync.algorithm = 'diloco', where a round waits for all replicas",
     [](JobSpec& s) { s.sync.quorum = 2; }},
    {"/sync/quorum", "from 0 to 10000, got -1",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.quorum = -1; }},
    {"/sync/quorum", "from 0 to 4, got 5",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.quorum = 5, s.swarm.max_replicas = 4;
     }},
    {"/sync/every", "a number of inner steps with sync.algorithm = 'async', got a time",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.every_s = 60; }},
    {"/sync/balance", "no replica waits for a slower one, got 'speed'",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.balance = Balance::kSpeed;
     }},
    {"/sync/topology", "'butterfly', 'ring' or 'auto' with sync.algorithm = 'async'",
     [](JobSpec& s) {
       s.sync.algorithm = SyncAlgorithm::kAsync, s.sync.topology = Topology::kParamServer;
     }},
    {"/sync/codec", "must be a dense one with sync.algorithm = 'async', got 'sparse2'",
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
    {"/swarm/copies_min", "must be from 1 to 2, got 0", [](JobSpec& s) { s.swarm.copies_min = 0; }},
    {"/swarm/copies_min", "must be from 1 to 2, got 3", [](JobSpec& s) { s.swarm.copies_min = 3; }},
    {"/checkpoint/every_rounds", "got -1", [](JobSpec& s) { s.checkpoint.every_rounds = -1; }},
    {"/checkpoint/buddies", "from 0 to 8, got 9",
     [](JobSpec& s) { s.swarm.stages = 2, s.checkpoint.buddies = 9; }},
    {"/checkpoint/buddies", "must be 0 with swarm.stages = 1; replicas of other stages keep",
     [](JobSpec& s) { s.checkpoint.buddies = 1; }},
    {"/checkpoint/buddies", "with sync.outer_state = 'sharded'",
     [](JobSpec& s) {
       s.swarm.stages = 2, s.sync.outer_state = OuterState::kSharded, s.checkpoint.buddies = 1;
     }},
    {"/checkpoint/buddies", "with sync.algorithm = 'none', which trains on one agent",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kNone, s.checkpoint.buddies = 1; }},
    {"/checkpoint/buddies", "with sync.algorithm = 'async'",
     [](JobSpec& s) { s.sync.algorithm = SyncAlgorithm::kAsync, s.checkpoint.buddies = 1; }},
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
    JobSpec options = good();
    in_groups(options, topology);
    EXPECT_THAT(validate(options), testing::IsEmpty());
    options.sync.algorithm = SyncAlgorithm::kLocalSgd;
    options.sync.outer = {1, 0};
    EXPECT_THAT(validate(options), testing::IsEmpty());
  }
  JobSpec options = good();
  in_groups(options, Topology::kMoshpit);
  options.sync.outer.momentum = 0.9;
  EXPECT_THAT(validate(options), testing::IsEmpty());
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
    {"/sync/outer/method", "must be 'nesterov' with sync.topology = 'gossip'",
     [](JobSpec& s) { s.sync.outer.method = OuterMethod::kSgd; }},
    {"/swarm/stages", "must be 1", [](JobSpec& s) { s.swarm.stages = 2; }},
    {"/sync/outer/momentum", "at most 0.5 (above it replicas drift apart)",
     [](JobSpec& s) { s.sync.outer.momentum = 0.6; }},
    {"/sync/outer/momentum", "at most 0.9",
     [](JobSpec& s) { s.sync.topology = Topology::kMoshpit, s.sync.outer.momentum = 0.95; }},
};

class RefusedInGroups : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedInGroups, ByPointerWithWhatWasGiven) {
  JobSpec options = good();
  in_groups(options, Topology::kGossip);
  GetParam().change(options);
  const auto errors = validate(options);
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
  JobSpec options = good();
  options.name = "";
  options.train.batch = 0;
  options.swarm.stages = 5;
  EXPECT_EQ(pointers(options),
            (std::vector<std::string>{"/name", "/train/batch", "/swarm/stages"}));
}

TEST(JobSpec, SpecsOfAgentsNeedNoName) {
  const JobSpec spec = for_agents(good());
  EXPECT_EQ(pointers(spec), std::vector<std::string>{"/name"});
  EXPECT_THAT(validate(spec, Author::kShoal), testing::IsEmpty());
}

TEST(JobSpec, DescriptionsMayHaveLines) {
  JobSpec spec = good();
  spec.description = "A first try.\nThe second line: \xC3\xBC";
  EXPECT_THAT(validate(spec), testing::IsEmpty());
}

TEST(JobSpec, AsManyStagesAsLayersOrAutoAreGood) {
  JobSpec options = good();
  for (const std::int64_t stages : {0, 1, 2, 4}) {
    options.swarm.stages = stages;
    EXPECT_THAT(validate(options), testing::IsEmpty()) << stages;
  }
}

TEST(JobSpec, ATiedHeadIsRefusedInAPipeline) {
  JobSpec options = good();
  options.model.tie_embeddings = true;
  EXPECT_THAT(validate(options), testing::IsEmpty());
  options.swarm.stages = 2;
  EXPECT_EQ(pointers(options), std::vector<std::string>{"/model/tie_embeddings"});
}

TEST(JobSpec, NoneWithOneReplicaIsGood) {
  JobSpec options = good();
  options.sync.algorithm = SyncAlgorithm::kNone;
  options.swarm.max_replicas = 1;
  EXPECT_THAT(validate(options), testing::IsEmpty());
}

TEST(JobSpec, ConstantScheduleDoesNotLookAtMinLr) {
  JobSpec options = good();
  options.train.schedule = Schedule::kConstant;
  options.train.lr = 1e-5;
  EXPECT_THAT(validate(options), testing::IsEmpty());
}

TEST(JobSpec, AProgramIsAPathBeneathARootAndTakesItsOwnSteps) {
  JobSpec options = good();
  options.trainer = {TrainerKind::kPython, "train.py"};
  EXPECT_THAT(validate(options), testing::IsEmpty());
  for (const std::string entry : {"", "/train.py", "../train.py", "a/../b.py", ".."}) {
    options.trainer.entry = entry;
    EXPECT_EQ(pointers(options), std::vector<std::string>{"/trainer/entry"}) << entry;
  }
  options.trainer.entry = "nano/train.py";
  options.train.join = JoinMoments::kMoments;
  EXPECT_THAT(validate(options), testing::IsEmpty());
  options.train.join = JoinMoments::kAuto;
  options.train.warmup = options.train.steps;
  EXPECT_THAT(validate(options), testing::IsEmpty())
      << "its schedule is its own, and so its warmup";
  options.model.init = "ckpt_7";
  EXPECT_THAT(validate(options), testing::IsEmpty());
  options.model.init = "hf:models:llama";
  EXPECT_EQ(pointers(options), std::vector<std::string>{"/model/init"});
}

TEST(JobSpec, AProgramIsCutIntoAKnownNumberOfStages) {
  JobSpec options = good();
  options.trainer = {TrainerKind::kPython, "train.py"};
  options.swarm.stages = 2;
  options.swarm.schedule = PipelineSchedule::kOneForwardOneBackward;
  EXPECT_THAT(validate(options), testing::IsEmpty());
  options.swarm.schedule = PipelineSchedule::kTwoBufferedWeights;
  EXPECT_EQ(pointers(options), std::vector<std::string>{"/swarm/schedule"});
  options.swarm.schedule = PipelineSchedule::kFlush;
  options.swarm.stages = 0;
  EXPECT_EQ(pointers(options), std::vector<std::string>{"/swarm/stages"});
  options.swarm.stages = 1;
  options.data = {.dataset = "books"};
  EXPECT_THAT(validate(options), testing::IsEmpty()) << "a program reads datasets, too";
}

TEST(JobSpec, TheCodeOfAProgramIsTheHashOfABundle) {
  JobSpec options = good();
  options.trainer = {TrainerKind::kPython, "train.py", "sha256:" + std::string(64, '0')};
  EXPECT_THAT(validate(options), testing::IsEmpty());
  for (const std::string& code :
       {std::string("code"), std::string(64, '0'), "sha256:" + std::string(63, '0'),
        "sha256:" + std::string(64, 'G'), "sha512:" + std::string(64, '0')}) {
    options.trainer.code = code;
    EXPECT_EQ(pointers(options), std::vector<std::string>{"/trainer/code"}) << code;
  }
  options.trainer = {TrainerKind::kBuiltin, "", "sha256:" + std::string(64, '0')};
  EXPECT_EQ(pointers(options), std::vector<std::string>{"/trainer/code"});
}

TEST(JobSpec, OnlyAProgramHasAnEntry) {
  JobSpec options = good();
  options.trainer.entry = "train.py";
  EXPECT_EQ(pointers(options), std::vector<std::string>{"/trainer/entry"});
  options.trainer.kind = TrainerKind::kPython;
  EXPECT_EQ(pointers(options), std::vector<std::string>{});
}

TEST(JobSpec, TheDefaultsOfEveryAlgorithmAreGood) {
  for (const SyncAlgorithm algorithm : {SyncAlgorithm::kNone, SyncAlgorithm::kDiloco,
                                        SyncAlgorithm::kLocalSgd, SyncAlgorithm::kDdp}) {
    JobSpec options = default_spec(algorithm);
    options.name = "a";
    options.data.train = "/x";
    EXPECT_THAT(validate(options), testing::IsEmpty()) << to_string(algorithm);
    EXPECT_EQ(options.sync.algorithm, algorithm);
  }
  EXPECT_EQ(default_spec(SyncAlgorithm::kDiloco), JobSpec());
  const JobSpec ddp = default_spec(SyncAlgorithm::kDdp);
  EXPECT_EQ(ddp.sync.codec, CodecKind::kFp32);
  EXPECT_EQ(ddp.checkpoint.every_rounds, 500);
  EXPECT_EQ(ddp.eval.every_rounds, 50);
}

}  // namespace
}  // namespace shoal
