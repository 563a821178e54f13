// What a user asks for: the job specification, its defaults and the rules between its fields. The
// text forms (TOML, JSON) are read in proto/job_spec_text.h; this file knows values only. A spec
// never changes after it was accepted; what becomes of the job is its status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace shoal {

enum class ModelFamily { kLlama, kGpt2 };
enum class Tokenizer {
  kBytes,
  kUint16
};  // text files as bytes; .bin files of little-endian uint16
enum class Schedule { kCosine, kConstant };  // after the warm-up
enum class Precision { kFp32, kBf16 };
// The inner optimizer. muon: orthogonalised momentum for the matrices of the blocks, AdamW for the
// rest.
enum class Optimizer { kAdamw, kMuon };
// none: one agent alone. diloco: inner AdamW, outer Nesterov on averaged pseudo-gradients.
// local_sgd: parameters are averaged (outer lr 1, no momentum). ddp: gradients are averaged at
// every inner step and all replicas take the same AdamW step, the synchronous baseline; a round is
// one inner step. async: a round commits once sync.quorum replicas have reported, the others go on
// and count later; outer momentum is delayed Nesterov.
enum class SyncAlgorithm { kNone, kDiloco, kLocalSgd, kDdp, kAsync };
// Who sends what to whom in a reduce (outer_opt/core/*_session.h); auto: chosen at each seal by
// member count, bandwidths and codec. param_server: parts belong to agents with the role reducer,
// which train nothing. moshpit, gossip: groups of a grid, random pairs; a round averages within
// each.
enum class Topology { kButterfly, kAllgather, kRing, kParamServer, kMoshpit, kGossip, kAuto };
// equal: every replica takes sync.every inner steps. speed: in proportion to its speed, the fastest
// takes sync.every (DyLU of Async Local-SGD).
enum class Balance { kEqual, kSpeed };
// Where outer momentum is kept: whole at every replica, or each owner of a part only that part.
enum class OuterState { kReplicated, kSharded };
// How the members' pseudo-gradients become one (algorithms: docs/outer_step.md).
enum class Aggregator { kMean, kTrimmedMean, kCenteredClip };
// How pseudo-gradients travel (outer_opt/core/codec/codec.h); the order is that of the numbers on
// the wire.
enum class CodecKind { kFp32, kInt8, kFp16, kBf16, kInt4, kE3m0, kSparse2 };
// What crosses a stage boundary; int8: one fp32 scale per block.
enum class ActivationCodec { kFp32, kBf16, kInt8 };
enum class Recompute { kKeep, kRecompute };  // keep the graph, or only the stage's input
// flush: as many microbatches in flight as keep every replica busy. 1f1b: only as many as there are
// replicas, backwards first; less memory, slower over latency. 2bw: two weight versions and no
// barrier between inner steps; gradients are one step old.
enum class PipelineSchedule { kFlush, kOneForwardOneBackward, kTwoBufferedWeights };
// Which replica of the next stage gets a microbatch; the last two exist to be compared with.
enum class WiringPolicy { kServiceTime, kSticky, kRandom };

struct ModelSpec {
  ModelFamily family = ModelFamily::kLlama;
  std::int64_t layers = 4;
  std::int64_t hidden = 128;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  // 0: as many as heads. gpt2 has no grouped heads
  std::int64_t ffn = 0;       // 0: 4 * hidden (gpt2), 8/3 * hidden rounded up to 32 (llama)
  std::int64_t context = 128;
  std::int64_t vocab = 256;
  // The head is the embedding's matrix. Not set: yes for gpt2 on one stage, else no; a pipeline
  // cannot tie them, because no replica holds both.
  std::optional<bool> tie_embeddings;
  bool operator==(const ModelSpec&) const = default;
};

// A model is a row of units: the embedding, the blocks, the head (last norm, projection, loss). A
// stage holds the units [first, last).
struct UnitRange {
  std::int32_t first = 0, last = 0;
  bool operator==(const UnitRange&) const = default;
};

struct DataSpec {
  std::string train;  // path of one file on every agent's host
  Tokenizer tokenizer = Tokenizer::kBytes;
  double val_fraction = 0.1;  // contiguous tail of the file, held out
  bool operator==(const DataSpec&) const = default;
};

struct TrainSpec {
  Steps steps{1000};  // inner steps of every replica
  // Sequences per replica and inner step; in a pipeline per replica of stage 0, which unequal ones
  // share by their speed.
  std::int64_t batch = 16;
  // Sequences per forward pass. 0: the whole batch at once; in a pipeline the largest divisor of
  // batch that gives a router four microbatches per step, so that there is something to overlap.
  std::int64_t microbatch = 0;
  Optimizer optimizer = Optimizer::kAdamw;
  double lr = 1e-3;
  double min_lr = 1e-4;  // where the cosine ends
  Steps warmup{100};
  Schedule schedule = Schedule::kCosine;
  double weight_decay = 0.1;  // on matrices only, not on norms, biases and embeddings of positions
  double beta1 = 0.9, beta2 = 0.99;  // 0.99: small batches make noisy second moments
  double clip = 1.0;                 // norm of the gradient; 0: off
  Precision precision = Precision::kFp32;
  std::uint64_t seed = 1;
  bool operator==(const TrainSpec&) const = default;
};

struct OuterSpec {  // docs/convergence.md has the runs that these come from
  double lr = 0.9;
  double momentum = 0.5;
  bool operator==(const OuterSpec&) const = default;
};

struct SyncSpec {
  SyncAlgorithm algorithm = SyncAlgorithm::kDiloco;
  Steps every{
      50};  // H, inner steps per round; with `none` the distance of checkpoints and evaluations
  // sync.every = "10m": seconds of training per round instead of a number of steps; 0: steps. Then
  // `every` is train.steps (derived): a round has no other bound.
  std::int64_t every_s = 0;
  Balance balance = Balance::kEqual;
  Topology topology = Topology::kButterfly;
  CodecKind codec = CodecKind::kInt8;
  double feedback = 0.95;  // what sparse2 keeps of the residual it did not send, 0: none
  Aggregator aggregator = Aggregator::kMean;
  bool clip = true;  // pseudo-gradients above the median norm are scaled down to it
  // A round averages one of so many fragments (blocks dealt in strides), H / fragments inner steps
  // after the one before.
  std::int64_t fragments = 1;
  // Inner steps that a replica takes between its boundary and adopting the round's result, so that
  // the reduce travels behind training; below H / fragments. 0: everybody waits.
  Steps overlap_steps{0};
  double blend = 0;  // share of the local parameters kept when the result is adopted
  // With overlap_steps: at its boundary a replica goes on from its own estimate of the result, the
  // average before with its own news, until the result is there.
  bool eager = false;
  std::int64_t quorum = 0;  // async: reports that are enough for a round; 0: half of the replicas
  OuterState outer_state = OuterState::kReplicated;
  OuterSpec outer;
  bool operator==(const SyncSpec&) const = default;
};

struct SwarmSpec {
  std::int64_t stages = 1;        // 0: "auto", the planner chooses
  std::int64_t min_replicas = 1;  // per stage; below it the job is stalled
  std::int64_t max_replicas = 0;  // per stage; 0: every agent that can
  ActivationCodec activations = ActivationCodec::kBf16;
  Recompute recompute = Recompute::kKeep;
  PipelineSchedule schedule = PipelineSchedule::kFlush;
  WiringPolicy wiring = WiringPolicy::kServiceTime;
  bool operator==(const SwarmSpec&) const = default;
};

struct CheckpointSpec {
  std::int64_t every_rounds = 10;  // 0: only the final one
  std::int64_t keep = 3;           // newest ones kept; the final one always is
  bool operator==(const CheckpointSpec&) const = default;
};

struct EvalSpec {
  std::int64_t every_rounds = 1;  // 0: only at the end
  std::int64_t batches = 20;      // of train.batch sequences, the same held-out ones every time
  bool operator==(const EvalSpec&) const = default;
};

struct JobSpec {
  std::string name;  // DNS label: lower case, digits, '-'; unique in the cluster
  ModelSpec model;
  DataSpec data;
  TrainSpec train;
  SyncSpec sync;
  SwarmSpec swarm;
  CheckpointSpec checkpoint;
  EvalSpec eval;
  bool operator==(const JobSpec&) const = default;
};

// One refused field. The pointer is a JSON pointer into the spec ("/train/lr").
struct FieldError {
  std::string pointer;
  std::string detail;  // what was given, what is accepted
  bool operator==(const FieldError&) const = default;
};

// The spec of a user who says nothing but the algorithm: local_sgd has an outer step that only
// averages; ddp has rounds of one step, exact averages, and evaluations and checkpoints as many
// inner steps apart as diloco's.
JobSpec default_spec(SyncAlgorithm algorithm);

// Every broken rule, in the order of the fields; empty when the spec is good.
std::vector<FieldError> validate(const JobSpec& spec);

// Fills the fields whose 0 means "derived": kv_heads, ffn, microbatch; and tie_embeddings. Call
// after validate(). swarm.stages stays 0 ("auto"): the number is the planner's, and kept with the
// job.
JobSpec with_derived_fields(JobSpec spec);

// Parameters of the whole model, and the memory that training one replica of it needs: its vectors
// in fp32 (training_vectors.h), for muon less second moments and what it works with, and the
// activations of one microbatch. Of a stage: swarm/core/plan/cost_model.h.
std::int64_t parameter_count(const ModelSpec& model);
Bytes training_memory(const JobSpec& spec);

// Rounds of a whole job; the last one may be shorter than sync.every. 0: nobody knows, because they
// go by time or, async, by who reports.
std::int64_t round_count(const JobSpec& spec);

const char* to_string(ModelFamily value);
const char* to_string(Tokenizer value);
const char* to_string(Schedule value);
const char* to_string(Precision value);
const char* to_string(Optimizer value);
const char* to_string(SyncAlgorithm value);
const char* to_string(Topology value);
const char* to_string(Balance value);
const char* to_string(Aggregator value);
const char* to_string(OuterState value);
const char* to_string(CodecKind value);
const char* to_string(ActivationCodec value);
const char* to_string(Recompute value);
const char* to_string(PipelineSchedule value);
const char* to_string(WiringPolicy value);

}  // namespace shoal
