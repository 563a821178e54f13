// The specification of a job: the tables and keys of a job file with their defaults, and the sizes
// that follow from them. The texts (TOML, JSON) are read in proto/job_spec_text.h, which checks
// the rules (job_rules.h) once, so that all later code holds a valid spec. A spec never changes
// after it was accepted; what happens to the job is in its record.
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
  return fields<&T::theta, &T::scaling, &T::factor, &T::low_freq_factor, &T::high_freq_factor,
                &T::original_context>();
}

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
  return fields<&T::family, &T::layers, &T::hidden, &T::heads, &T::kv_heads, &T::ffn, &T::context,
                &T::vocab, &T::tie_embeddings, &T::head_dim, &T::qkv_bias, &T::norm_eps, &T::rope,
                &T::init>();
}

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
  return fields_as_array(field<&T::first>(), field<&T::last>());
}

// One dataset of a mixture. Of all sequences its share is weight / (sum of weights).
struct MixturePart {
  std::string dataset;  // as DataSpec::dataset
  double weight = 1;
  bool operator==(const MixturePart&) const = default;
};
constexpr auto fields_of(Of<MixturePart>) {
  using T = MixturePart;
  return fields<&T::dataset, &T::weight>();
}

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
  return fields<&T::train, &T::tokenizer, &T::val_fraction, &T::tokenizer_file, &T::dataset,
                &T::mixture>();
}

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
  return fields<&T::steps, &T::batch, &T::microbatch, &T::optimizer, &T::join, &T::lr, &T::min_lr,
                &T::warmup, &T::schedule, &T::weight_decay, &T::beta1, &T::beta2, &T::clip,
                &T::precision, &T::seed, &T::continue_from>();
}

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
  return fields<&T::stages, &T::min_replicas, &T::max_replicas, &T::activations, &T::recompute,
                &T::schedule, &T::priority, &T::copies_min, &T::recut>();
}

struct CheckpointSpec {
  std::int64_t every_rounds = 10;  // 0: only the final one
  std::int64_t keep = 3;           // newest ones kept; the final one always is
  std::int64_t buddies = 0;        // copies of each stage in the memory of hosts that serve others
  bool operator==(const CheckpointSpec&) const = default;
};
constexpr auto fields_of(Of<CheckpointSpec>) {
  using T = CheckpointSpec;
  return fields<&T::every_rounds, &T::keep, &T::buddies>();
}

struct EvalSpec {
  std::int64_t every_rounds = 1;  // 0: only at the end
  std::int64_t batches = 20;      // of train.batch sequences, the same held-out ones every time
  bool operator==(const EvalSpec&) const = default;
};
constexpr auto fields_of(Of<EvalSpec>) {
  using T = EvalSpec;
  return fields<&T::every_rounds, &T::batches>();
}

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
  return fields<&T::kind, &T::entry, &T::code>();
}

struct JobSpec {
  // For people, so agents do not receive the next two, and signatures do not cover them
  // (for_agents(), coordinator/core/state/commit_proof.h).
  std::string name;         // DNS label: lower case, digits, '-'; unique in the cluster
  std::string description;  // any text of at most 1000 bytes; `shoal job ls --search` looks in it
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
constexpr auto fields_of(Of<JobSpec>) {
  using T = JobSpec;
  return fields<&T::name, &T::description, &T::model, &T::data, &T::train, &T::sync, &T::swarm,
                &T::checkpoint, &T::eval, &T::trainer>();
}

// The spec without the texts for people.
JobSpec for_agents(JobSpec spec);

// Fills the fields whose 0 means "derived": kv_heads, head_dim, ffn, microbatch; tie_embeddings;
// and sync.every of rounds by time. Call on valid specs. swarm.stages stays 0 ("auto"): the number
// is the planner's, and kept with the job.
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
