// What runs: the specification of a job, with its sync table parsed into what can be combined
// (sync_spec.h), and the sizes that follow from it. People write job_options.h, whose rules hold
// before a spec is made. A spec never changes after it was accepted; what becomes of the job is its
// status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/units.h"
#include "job/job_spec_enums.h"
#include "job/sync_spec.h"

namespace shoal {

// Rotary positions (llama). Pair i of a head turns by position * theta^(-2i / head_dim), scaled.
struct RopeSpec {
  double theta = 10'000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;  // of scaling: how many times longer the context became
  // llama3: an angle whose wave length is above original_context / low_freq_factor is divided by
  // the factor; below original_context / high_freq_factor it stays.
  double low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_context = 8192;
  bool operator==(const RopeSpec&) const = default;
};
constexpr auto fields_of(Of<RopeSpec>) {
  using T = RopeSpec;
  return fields(field<&T::theta>("theta"), field<&T::scaling>("scaling"),
                field<&T::factor>("factor"), field<&T::low_freq_factor>("low_freq_factor"),
                field<&T::high_freq_factor>("high_freq_factor"),
                field<&T::original_context>("original_context"));
}
static_assert(lists_every_field<RopeSpec>());

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
  std::int64_t head_dim = 0;  // values per attention head; 0: hidden / heads, as gpt2 always has
  bool qkv_bias = false;      // llama: biases of q, k and v, as Qwen2 has them; gpt2 has its own
  double norm_eps = 1e-5;     // added to the mean square or variance under the root of a norm
  RopeSpec rope;
  // Where the initial parameters come from. Empty: drawn from train.seed. "hf:PATH": a folder of
  // the Hugging Face libraries, beneath a data root of each agent's host. "ckpt_7": a stored
  // checkpoint, of any job and cut (data_rules.h).
  std::string init;
  bool operator==(const ModelSpec&) const = default;
};
constexpr auto fields_of(Of<ModelSpec>) {
  using T = ModelSpec;
  return fields(field<&T::family>("family"), field<&T::layers>("layers"),
                field<&T::hidden>("hidden"), field<&T::heads>("heads"),
                field<&T::kv_heads>("kv_heads"), field<&T::ffn>("ffn"),
                field<&T::context>("context"), field<&T::vocab>("vocab"),
                field<&T::tie_embeddings>("tie_embeddings"), field<&T::head_dim>("head_dim"),
                field<&T::qkv_bias>("qkv_bias"), field<&T::norm_eps>("norm_eps"),
                field<&T::rope>("rope"), field<&T::init>("init"));
}
static_assert(lists_every_field<ModelSpec>());

// Values per token of all queries, and of all keys; there are as many of values as of keys. Derived
// fields must be filled.
constexpr std::int64_t query_width(const ModelSpec& m) { return m.heads * m.head_dim; }
constexpr std::int64_t key_width(const ModelSpec& m) { return m.kv_heads * m.head_dim; }

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

// One dataset of a mixture. Of all sequences its share is weight / (sum of weights).
struct MixturePart {
  std::string dataset;  // as DataSpec::dataset
  double weight = 1;
  bool operator==(const MixturePart&) const = default;
};
constexpr auto fields_of(Of<MixturePart>) {
  using T = MixturePart;
  return fields(field<&T::dataset>("dataset"), field<&T::weight>("weight"));
}
static_assert(lists_every_field<MixturePart>());

// One of train, dataset and mixture says what is read.
struct DataSpec {
  std::string train;  // path of one file on every agent's host
  Tokenizer tokenizer = Tokenizer::kBytes;
  double val_fraction = 0.1;  // contiguous tail of the file, held out
  // The tokenizer.json that made the tokens, beneath a data root of each agent's host; empty: the
  // tokens are bytes, or numbers without a text. With it samples are text, and checkpoints carry a
  // copy.
  std::string tokenizer_file;
  // A dataset of the coordinator, NAME or NAME@MANIFEST (data_rules.h). Submission adds the hash of
  // the manifest, so a job reads what the name meant then.
  std::string dataset;
  std::vector<MixturePart> mixture;  // of datasets, in their order; at most kMixtureMax
  bool operator==(const DataSpec&) const = default;
};
constexpr auto fields_of(Of<DataSpec>) {
  using T = DataSpec;
  return fields(field<&T::train>("train"), field<&T::tokenizer>("tokenizer"),
                field<&T::val_fraction>("val_fraction"),
                field<&T::tokenizer_file>("tokenizer_file"), field<&T::dataset>("dataset"),
                field<&T::mixture>("mixture"));
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
  JoinMoments join = JoinMoments::kAuto;
  double lr = 1e-3;
  double min_lr = 1e-4;  // where the cosine ends
  Steps warmup{100};
  Schedule schedule = Schedule::kCosine;
  double weight_decay = 0.1;  // on matrices only, not on norms, biases and embeddings of positions
  double beta1 = 0.9, beta2 = 0.99;  // 0.99: small batches make noisy second moments
  double clip = 1.0;                 // norm of the gradient; 0: off
  Precision precision = Precision::kFp32;
  std::uint64_t seed = 1;
  // "ckpt_7": a stored checkpoint of any job of the same model and cut, with which this job begins:
  // its round, step, outer momentum, moments and place in the data. Empty: it begins at step 0.
  std::string continue_from;
  bool operator==(const TrainSpec&) const = default;
};
constexpr auto fields_of(Of<TrainSpec>) {
  using T = TrainSpec;
  return fields(
      field<&T::steps>("steps"), field<&T::batch>("batch"), field<&T::microbatch>("microbatch"),
      field<&T::optimizer>("optimizer"), field<&T::join>("join"), field<&T::lr>("lr"),
      field<&T::min_lr>("min_lr"), field<&T::warmup>("warmup"), field<&T::schedule>("schedule"),
      field<&T::weight_decay>("weight_decay"), field<&T::beta1>("beta1"), field<&T::beta2>("beta2"),
      field<&T::clip>("clip"), field<&T::precision>("precision"), field<&T::seed>("seed"),
      field<&T::continue_from>("continue_from"));
}
static_assert(lists_every_field<TrainSpec>());

// The range of swarm.priority; jobs with a higher priority get devices first. A submitter may ask
// for at most the default.
inline constexpr std::int64_t kPriorityMin = 1, kPriorityDefault = 50, kPriorityMax = 99;

struct SwarmSpec {
  std::int64_t stages = 1;        // 0: "auto", the planner chooses
  std::int64_t min_replicas = 1;  // per stage; below it the job is stalled
  std::int64_t max_replicas = 0;  // per stage; 0: every agent that can
  ActivationCodec activations = ActivationCodec::kBf16;
  Recompute recompute = Recompute::kKeep;
  PipelineSchedule schedule = PipelineSchedule::kFlush;
  std::int64_t priority = kPriorityDefault;  // that the job begins with; then JobRecord::priority
  // Copies of a stage's state that a move for speed leaves there at least, 1 or 2.
  std::int64_t copies_min = 2;
  bool recut = false;  // placed anew at a checkpoint where that is much faster, and cut anew
  bool operator==(const SwarmSpec&) const = default;
};
constexpr auto fields_of(Of<SwarmSpec>) {
  using T = SwarmSpec;
  return fields(field<&T::stages>("stages"), field<&T::min_replicas>("min_replicas"),
                field<&T::max_replicas>("max_replicas"), field<&T::activations>("activations"),
                field<&T::recompute>("recompute"), field<&T::schedule>("schedule"),
                field<&T::priority>("priority"), field<&T::copies_min>("copies_min"),
                field<&T::recut>("recut"));
}
static_assert(lists_every_field<SwarmSpec>());

struct CheckpointSpec {
  std::int64_t every_rounds = 10;  // 0: only the final one
  std::int64_t keep = 3;           // newest ones kept; the final one always is
  std::int64_t buddies = 0;        // copies of each stage in the memory of hosts that serve others
  bool operator==(const CheckpointSpec&) const = default;
};
constexpr auto fields_of(Of<CheckpointSpec>) {
  using T = CheckpointSpec;
  return fields(field<&T::every_rounds>("every_rounds"), field<&T::keep>("keep"),
                field<&T::buddies>("buddies"));
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

inline constexpr std::string_view kCodePrefix = "sha256:";
inline constexpr std::size_t kCodeHashLength = 64;

struct TrainerSpec {
  TrainerKind kind = TrainerKind::kBuiltin;
  // For kPython: the program, a path within the code of the job or, if it has none, beneath the
  // agents' --trainer-root.
  std::string entry;
  std::string code;  // of kPython: "sha256:" and 64 hex characters, of an uploaded bundle
  bool operator==(const TrainerSpec&) const = default;
};
constexpr auto fields_of(Of<TrainerSpec>) {
  using T = TrainerSpec;
  return fields(field<&T::kind>("kind"), field<&T::entry>("entry"), field<&T::code>("code"));
}
static_assert(lists_every_field<TrainerSpec>());

struct JobSpec {
  std::string name;  // DNS label: lower case, digits, '-'; unique in the cluster
  ModelSpec model;
  DataSpec data;
  TrainSpec train;
  SyncSpec sync;
  SwarmSpec swarm;
  CheckpointSpec checkpoint;
  EvalSpec eval;
  TrainerSpec trainer;
  bool operator==(const JobSpec&) const = default;
};

// Fills the fields whose 0 means "derived": kv_heads, head_dim, ffn, microbatch; and
// tie_embeddings. Call on valid specs. swarm.stages stays 0 ("auto"): the number is the planner's,
// and kept with the job.
JobSpec with_derived_fields(JobSpec spec);

// Parameters of the whole model, and the memory that training one replica of it needs: its vectors
// in fp32 (training_vectors.h), for muon less second moments and what it works with, and the
// activations of one microbatch. For a stage see swarm/core/plan/cost_model.h.
std::int64_t parameter_count(const ModelSpec& model);
Bytes training_memory(const JobSpec& spec);

// Rounds of a whole job; the last one may be shorter than sync.every. 0: nobody knows, because they
// go by time or, async, by who reports.
std::int64_t round_count(const JobSpec& spec);

}  // namespace shoal
