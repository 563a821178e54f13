// What a user asks for: the job specification, its defaults and the rules between its fields. The
// text forms (TOML, JSON) are read in proto/job_spec_text.h; this file knows values only. A spec
// never changes after it was accepted; what becomes of the job is its status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/units.h"
#include "job/job_spec_words.h"

namespace shoal {

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
constexpr auto fields_of(Of<ModelSpec>) {
  using T = ModelSpec;
  return fields(field<&T::family>("family"), field<&T::layers>("layers"),
                field<&T::hidden>("hidden"), field<&T::heads>("heads"),
                field<&T::kv_heads>("kv_heads"), field<&T::ffn>("ffn"),
                field<&T::context>("context"), field<&T::vocab>("vocab"),
                field<&T::tie_embeddings>("tie_embeddings"));
}
static_assert(lists_every_field<ModelSpec>());

// A model is a row of units: the embedding, the blocks, the head (last norm, projection, loss). A
// stage holds the units [first, last).
struct UnitRange {
  std::int32_t first = 0, last = 0;
  bool operator==(const UnitRange&) const = default;
};
constexpr auto fields_of(Of<UnitRange>) {
  using T = UnitRange;
  return fields_as_array(field<&T::first>("first"), field<&T::last>("last"));
}
static_assert(lists_every_field<UnitRange>());

struct DataSpec {
  std::string train;  // path of one file on every agent's host
  Tokenizer tokenizer = Tokenizer::kBytes;
  double val_fraction = 0.1;  // contiguous tail of the file, held out
  bool operator==(const DataSpec&) const = default;
};
constexpr auto fields_of(Of<DataSpec>) {
  using T = DataSpec;
  return fields(field<&T::train>("train"), field<&T::tokenizer>("tokenizer"),
                field<&T::val_fraction>("val_fraction"));
}
static_assert(lists_every_field<DataSpec>());

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
constexpr auto fields_of(Of<TrainSpec>) {
  using T = TrainSpec;
  return fields(field<&T::steps>("steps"), field<&T::batch>("batch"),
                field<&T::microbatch>("microbatch"), field<&T::optimizer>("optimizer"),
                field<&T::lr>("lr"), field<&T::min_lr>("min_lr"), field<&T::warmup>("warmup"),
                field<&T::schedule>("schedule"), field<&T::weight_decay>("weight_decay"),
                field<&T::beta1>("beta1"), field<&T::beta2>("beta2"), field<&T::clip>("clip"),
                field<&T::precision>("precision"), field<&T::seed>("seed"));
}
static_assert(lists_every_field<TrainSpec>());

struct OuterSpec {  // docs/convergence.md has the runs that these come from
  double lr = 0.9;
  double momentum = 0.5;
  bool operator==(const OuterSpec&) const = default;
};
constexpr auto fields_of(Of<OuterSpec>) {
  using T = OuterSpec;
  return fields(field<&T::lr>("lr"), field<&T::momentum>("momentum"));
}
static_assert(lists_every_field<OuterSpec>());

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
constexpr auto fields_of(Of<SyncSpec>) {
  using T = SyncSpec;
  return fields(
      field<&T::algorithm>("algorithm"), field<&T::every>("every"), field<&T::every_s>("every_s"),
      field<&T::balance>("balance"), field<&T::topology>("topology"), field<&T::codec>("codec"),
      field<&T::feedback>("feedback"), field<&T::aggregator>("aggregator"), field<&T::clip>("clip"),
      field<&T::fragments>("fragments"), field<&T::overlap_steps>("overlap_steps"),
      field<&T::blend>("blend"), field<&T::eager>("eager"), field<&T::quorum>("quorum"),
      field<&T::outer_state>("outer_state"), field<&T::outer>("outer"));
}
static_assert(lists_every_field<SyncSpec>());

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
constexpr auto fields_of(Of<SwarmSpec>) {
  using T = SwarmSpec;
  return fields(field<&T::stages>("stages"), field<&T::min_replicas>("min_replicas"),
                field<&T::max_replicas>("max_replicas"), field<&T::activations>("activations"),
                field<&T::recompute>("recompute"), field<&T::schedule>("schedule"),
                field<&T::wiring>("wiring"));
}
static_assert(lists_every_field<SwarmSpec>());

struct CheckpointSpec {
  std::int64_t every_rounds = 10;  // 0: only the final one
  std::int64_t keep = 3;           // newest ones kept; the final one always is
  bool operator==(const CheckpointSpec&) const = default;
};
constexpr auto fields_of(Of<CheckpointSpec>) {
  using T = CheckpointSpec;
  return fields(field<&T::every_rounds>("every_rounds"), field<&T::keep>("keep"));
}
static_assert(lists_every_field<CheckpointSpec>());

struct EvalSpec {
  std::int64_t every_rounds = 1;  // 0: only at the end
  std::int64_t batches = 20;      // of train.batch sequences, the same held-out ones every time
  bool operator==(const EvalSpec&) const = default;
};
constexpr auto fields_of(Of<EvalSpec>) {
  using T = EvalSpec;
  return fields(field<&T::every_rounds>("every_rounds"), field<&T::batches>("batches"));
}
static_assert(lists_every_field<EvalSpec>());

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
constexpr auto fields_of(Of<JobSpec>) {
  using T = JobSpec;
  return fields(field<&T::name>("name"), field<&T::model>("model"), field<&T::data>("data"),
                field<&T::train>("train"), field<&T::sync>("sync"), field<&T::swarm>("swarm"),
                field<&T::checkpoint>("checkpoint"), field<&T::eval>("eval"));
}
static_assert(lists_every_field<JobSpec>());

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

}  // namespace shoal
