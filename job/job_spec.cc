// The values of a job that follow from others, and the sizes that follow from all.
#include "job/job_spec.h"

#include <algorithm>

#include "job/training_vectors.h"

namespace shoal {
namespace {

constexpr std::int64_t kPipelineMicrobatches = 4;  // per router and step, when they are derived
constexpr std::int64_t kFloatBytes = 4;
// What muon needs for the matrix it works on: gradient, update, and three of an iteration.
constexpr std::int64_t kMuonWorkspace = 5;

std::int64_t llama_parameters(const ModelSpec& m) {
  const std::int64_t attention = 2 * m.hidden * (query_width(m) + key_width(m));
  const std::int64_t biases = m.qkv_bias ? query_width(m) + 2 * key_width(m) : 0;
  const std::int64_t layer = attention + biases + 3 * m.hidden * m.ffn + 2 * m.hidden;
  const std::int64_t matrices = *m.tie_embeddings ? 1 : 2;  // embedding and head
  return matrices * m.vocab * m.hidden + m.layers * layer + m.hidden;
}

std::int64_t gpt2_parameters(const ModelSpec& m) {
  const std::int64_t attention = 4 * m.hidden * m.hidden + 4 * m.hidden;
  const std::int64_t mlp = 2 * m.hidden * m.ffn + m.ffn + m.hidden;
  const std::int64_t matrices = *m.tie_embeddings ? 1 : 2;  // embedding and head
  return (matrices * m.vocab + m.context) * m.hidden + m.layers * (attention + mlp + 4 * m.hidden) +
         2 * m.hidden;
}

// Values that muon keeps no second moment of, less what it needs while it steps.
double memory_saved_by_muon(const ModelSpec& m) {
  const bool llama = m.family == ModelFamily::kLlama;
  const std::int64_t matrices =
      2 * m.hidden * (query_width(m) + key_width(m)) + (llama ? 3 : 2) * m.hidden * m.ffn;
  const std::int64_t largest = m.hidden * std::max({m.hidden, query_width(m), m.ffn});
  return static_cast<double>(m.layers) * static_cast<double>(matrices) -
         static_cast<double>(kMuonWorkspace * largest);
}

ModelSpec derived(ModelSpec model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0) model.head_dim = model.hidden / model.heads;
  if (model.ffn == 0) {
    const bool llama = model.family == ModelFamily::kLlama;
    model.ffn = llama ? (8 * model.hidden + 95) / 96 * 32 : 4 * model.hidden;
  }
  if (!model.tie_embeddings) model.tie_embeddings = model.family == ModelFamily::kGpt2;
  return model;
}

// What the backward pass keeps, in values: per token and layer the inputs of every matrix product,
// norm and activation; per layer the attention scores and their softmax; at the end logits, their
// softmax and gradient. In double, because the bounds of the fields multiply to more than 64 bits.
// With `recompute` the blocks keep their input, and one of them has all of it in the backward pass.
double activation_values(const ModelSpec& m, std::int64_t microbatch, bool recompute) {
  const auto tokens = static_cast<double>(microbatch) * static_cast<double>(m.context);
  const auto per_token = static_cast<double>(8 * m.hidden + 4 * query_width(m) + 4 * m.ffn);
  const double scores = 2.0 * static_cast<double>(m.heads) * static_cast<double>(m.context);
  const auto layers = static_cast<double>(m.layers);
  const double blocks = recompute ? layers * static_cast<double>(m.hidden) + per_token + scores
                                  : layers * (per_token + scores);
  return tokens * (blocks + 3.0 * static_cast<double>(m.vocab));
}

std::int64_t derived_microbatch(const JobSpec& spec) {
  const std::int64_t batch = spec.train.batch;
  if (spec.swarm.stages == 1) return batch;
  std::int64_t size = std::max<std::int64_t>(1, batch / kPipelineMicrobatches);
  while (batch % size != 0) --size;
  return size;
}

}  // namespace

JobSpec for_agents(JobSpec spec) {
  spec.name.clear();
  spec.description.clear();
  return spec;
}

JobSpec with_derived_fields(JobSpec spec) {
  if (spec.swarm.stages != 1) spec.model.tie_embeddings = false;
  spec.model = derived(spec.model);
  if (spec.train.microbatch == 0) spec.train.microbatch = derived_microbatch(spec);
  if (spec.sync.every_s > 0) spec.sync.every = spec.train.steps;
  return spec;
}

std::int64_t parameter_count(const ModelSpec& model) {
  const ModelSpec full = derived(model);
  return full.family == ModelFamily::kLlama ? llama_parameters(full) : gpt2_parameters(full);
}

Bytes training_memory(const JobSpec& spec) {
  const JobSpec full = with_derived_fields(spec);
  double state = static_cast<double>(parameter_count(full.model)) * training_vectors(full);
  if (full.train.optimizer == Optimizer::kMuon) state -= memory_saved_by_muon(full.model);
  const bool recompute = full.swarm.recompute == Recompute::kRecompute;
  const double bytes =
      (state + activation_values(full.model, full.train.microbatch, recompute)) * kFloatBytes;
  constexpr double kMost = 9.0e18;
  return Bytes(static_cast<std::int64_t>(std::min(bytes, kMost)));
}

std::int64_t round_count(const JobSpec& spec) {
  const SyncSpec& sync = spec.sync;
  if (sync.every_s > 0 || sync.algorithm == SyncAlgorithm::kAsync) return 0;
  const std::int64_t length = sync.every.count() / sync.fragments;
  return (spec.train.steps.count() + length - 1) / length;
}

}  // namespace shoal
