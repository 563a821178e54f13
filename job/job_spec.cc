// The rules between the fields of a job and the sizes that follow from them. Every rule is checked
// and every broken one is told, with the value given and what would be accepted, so that one look
// repairs a job file. Upper bounds are generous: they only keep the arithmetic of sizes inside 64
// bits.
#include "job/job_spec.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "job/eager_rules.h"
#include "job/field_checker.h"
#include "job/group_rules.h"
#include "job/training_vectors.h"

namespace shoal {
namespace {

constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxHidden = 65'536;
constexpr std::int64_t kMaxFfn = 1 << 20;
constexpr std::int64_t kMaxContext = 1 << 20;
constexpr std::int64_t kMaxVocab = 1 << 22;
constexpr std::int64_t kMaxBatch = 65'536;
constexpr std::int64_t kMaxSteps = 1'000'000'000;
constexpr std::int64_t kMaxReplicas = 10'000;
constexpr std::int64_t kMaxRounds = 1'000'000'000;
constexpr std::int64_t kMaxRoundSeconds = 7 * 86'400;
constexpr std::int64_t kMaxFragments = 1024;
constexpr std::int64_t kMaxEvalBatches = 1'000'000;
constexpr std::int64_t kPipelineMicrobatches = 4;  // per router and step, when they are derived
constexpr std::int64_t kBytesVocab = 256;
constexpr std::int64_t kUint16Vocab = 65'536;
constexpr std::size_t kMaxNameLength = 63;  // RFC 1035 label
constexpr std::size_t kMaxPathLength = 4096;
constexpr std::int64_t kFloatBytes = 4;
// What muon needs for the matrix it works on: gradient, update, and three of an iteration.
constexpr std::int64_t kMuonWorkspace = 5;

bool is_dns_label(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
  }
  return name.front() != '-' && name.back() != '-';
}

void check_name(const std::string& name, FieldChecker& checker) {
  if (name.empty()) return checker.refuse("/name", "is required: a name for the job, e.g. 'kjv'");
  if (!is_dns_label(name)) {
    checker.refuse("/name",
                   "must be 1 to 63 lower-case letters, digits and '-', not starting or "
                   "ending with '-', got " +
                       quoted(name));
  }
}

void check_heads(const ModelSpec& model, FieldChecker& checker) {
  checker.within("/model/heads", model.heads, 1, kMaxHidden);
  if (model.heads < 1 || model.hidden < 1) return;
  if (model.hidden % model.heads != 0) {
    return checker.refuse("/model/heads", "must divide hidden (" + text_of(model.hidden) +
                                              "), got " + text_of(model.heads));
  }
  const std::int64_t head_dim = model.hidden / model.heads;
  if (model.family == ModelFamily::kLlama && head_dim % 2 != 0) {
    checker.refuse("/model/heads",
                   "must leave an even head size for rotary positions: hidden / heads = " +
                       text_of(model.hidden) + " / " + text_of(model.heads) + " = " +
                       text_of(head_dim));
  }
}

void check_kv_heads(const ModelSpec& model, FieldChecker& checker) {
  if (model.kv_heads == 0) return;
  if (model.family == ModelFamily::kGpt2) {
    return checker.require(
        model.kv_heads == model.heads, "/model/kv_heads",
        "must be 0 or equal to heads (" + text_of(model.heads) + "): gpt2 has no grouped heads",
        model.kv_heads);
  }
  checker.require(
      model.kv_heads > 0 && model.kv_heads <= model.heads && model.heads % model.kv_heads == 0,
      "/model/kv_heads", "must be 0 or a divisor of heads (" + text_of(model.heads) + ")",
      model.kv_heads);
}

void check_vocab(const JobSpec& spec, FieldChecker& checker) {
  const std::int64_t vocab = spec.model.vocab;
  if (vocab < 2 || vocab > kMaxVocab) {
    return checker.within("/model/vocab", vocab, 2, kMaxVocab);
  }
  if (spec.data.tokenizer == Tokenizer::kBytes) {
    checker.require(vocab >= kBytesVocab, "/model/vocab",
                    "must be at least 256 with data.tokenizer = 'bytes'", vocab);
  } else {
    checker.require(vocab <= kUint16Vocab, "/model/vocab",
                    "must be at most 65536 with data.tokenizer = 'uint16'", vocab);
  }
}

void check_model(const JobSpec& spec, FieldChecker& checker) {
  const ModelSpec& model = spec.model;
  checker.within("/model/layers", model.layers, 1, kMaxLayers);
  checker.within("/model/hidden", model.hidden, 1, kMaxHidden);
  check_heads(model, checker);
  check_kv_heads(model, checker);
  checker.require(
      model.ffn >= 0 && model.ffn <= kMaxFfn, "/model/ffn",
      "must be from 1 to " + text_of(kMaxFfn) + ", or 0 for the usual width of the family",
      model.ffn);
  checker.within("/model/context", model.context, 1, kMaxContext);
  check_vocab(spec, checker);
}

void check_data(const DataSpec& data, FieldChecker& checker) {
  if (data.train.empty()) {
    checker.refuse("/data/train",
                   "is required: the path of the training file on every agent's host");
  } else if (data.train.size() > kMaxPathLength || data.train.find('\0') != std::string::npos) {
    checker.refuse("/data/train", "must be a path of at most 4096 characters without NUL");
  }
  checker.require(data.val_fraction > 0 && data.val_fraction < 1, "/data/val_fraction",
                  "must be above 0 and below 1", data.val_fraction);
}

void check_batch(const TrainSpec& train, FieldChecker& checker) {
  checker.within("/train/batch", train.batch, 1, kMaxBatch);
  if (train.microbatch == 0 || train.batch < 1) return;
  checker.require(train.microbatch > 0 && train.microbatch <= train.batch &&
                      train.batch % train.microbatch == 0,
                  "/train/microbatch",
                  "must be 0 or a divisor of batch (" + text_of(train.batch) + ")",
                  train.microbatch);
}

void check_learning_rate(const TrainSpec& train, FieldChecker& checker) {
  checker.require(train.lr > 0 && train.lr <= 10, "/train/lr", "must be above 0 and at most 10",
                  train.lr);
  const bool ends_at_min = train.schedule == Schedule::kCosine;
  checker.require(train.min_lr >= 0 && (!ends_at_min || train.min_lr <= train.lr), "/train/min_lr",
                  "must be from 0 to lr (" + text_of(train.lr) + ")", train.min_lr);
  checker.require(train.warmup.count() >= 0 && train.warmup < train.steps, "/train/warmup",
                  "must be from 0 to below steps (" + text_of(train.steps.count()) + "), is " +
                      text_of(TrainSpec().warmup.count()) + " unless set",
                  train.warmup.count());
}

void check_beta(double beta, const char* pointer, FieldChecker& checker) {
  checker.require(beta >= 0 && beta < 1, pointer, "must be from 0 to below 1", beta);
}

void check_train(const TrainSpec& train, FieldChecker& checker) {
  checker.within("/train/steps", train.steps.count(), 1, kMaxSteps);
  check_batch(train, checker);
  check_learning_rate(train, checker);
  checker.require(train.weight_decay >= 0 && train.weight_decay <= 10, "/train/weight_decay",
                  "must be from 0 to 10", train.weight_decay);
  check_beta(train.beta1, "/train/betas/0", checker);
  check_beta(train.beta2, "/train/betas/1", checker);
  checker.require(train.clip >= 0 && std::isfinite(train.clip), "/train/clip",
                  "must be a norm above 0, or 0 for no clipping", train.clip);
  if (train.seed > static_cast<std::uint64_t>(INT64_MAX)) {
    checker.refuse("/train/seed",
                   "must be from 0 to 9223372036854775807, got " + std::to_string(train.seed));
  }
}

// What fits together on the way from the pseudo-gradients to their average.
void check_topology(const SyncSpec& sync, FieldChecker& checker) {
  const bool sparse = sync.codec == CodecKind::kSparse2;
  const bool gathers = sync.topology == Topology::kAllgather;
  if (sparse && !gathers && sync.topology != Topology::kAuto) {
    checker.refuse(
        "/sync/topology",
        "must be 'allgather' or 'auto' with sync.codec = 'sparse2', which has no sum, got " +
            quoted(to_string(sync.topology)));
  }
  if (gathers && !sparse) {
    checker.refuse("/sync/topology",
                   "must be 'butterfly', 'ring', 'param_server' or 'auto' "
                   "with sync.codec = " +
                       quoted(to_string(sync.codec)) +
                       ": 'allgather' is for 'sparse2', got 'allgather'");
  }
  const bool whole = sync.aggregator == Aggregator::kMean;
  if (!whole && (sparse || sync.topology == Topology::kRing)) {
    checker.refuse("/sync/aggregator", std::string("must be 'mean' with sync.") +
                                           (sparse ? "codec = 'sparse2'" : "topology = 'ring'") +
                                           ": no member holds all contributions to a value, got " +
                                           quoted(to_string(sync.aggregator)));
  }
}

// Error feedback and outer momentum both add up what was not applied yet; together they diverge.
void check_feedback(const SyncSpec& sync, FieldChecker& checker) {
  checker.require(sync.feedback >= 0 && sync.feedback < 1, "/sync/feedback",
                  "must be from 0 to below 1", sync.feedback);
  const bool both = sync.codec == CodecKind::kSparse2 && sync.feedback > 0 &&
                    sync.outer.momentum > 0 && sync.algorithm == SyncAlgorithm::kDiloco;
  if (!both) return;
  checker.refuse(
      "/sync/outer/momentum",
      "must be 0 with sync.codec = 'sparse2' and sync.feedback above 0: together they "
      "diverge; set sync.outer.lr = 1 and sync.outer.momentum = 0, or sync.feedback = 0, "
      "got " +
          text_of(sync.outer.momentum));
}

std::string with_algorithm(const SyncSpec& sync) {
  return " with sync.algorithm = " + quoted(to_string(sync.algorithm));
}

// Sharded outer momentum lives at the owners of a butterfly's parts, of the whole vector.
void check_outer_state(const SyncSpec& sync, FieldChecker& checker) {
  if (sync.outer_state == OuterState::kReplicated) return;
  const auto refuse = [&](const std::string& why) {
    checker.refuse("/sync/outer_state", "must be 'replicated'" + why + ", got 'sharded'");
  };
  if (sync.algorithm != SyncAlgorithm::kDiloco) {
    return refuse(with_algorithm(sync) + ": only 'diloco' has outer momentum in rounds of all");
  }
  if (sync.outer.momentum == 0) refuse(" with sync.outer.momentum = 0: there is none to shard");
  if (sync.topology != Topology::kButterfly && sync.topology != Topology::kAuto) {
    refuse(" with sync.topology = " + quoted(to_string(sync.topology)) +
           ": the owners of a butterfly's parts keep it");
  }
  if (sync.codec == CodecKind::kSparse2) {
    refuse(" with sync.codec = 'sparse2', which has no owners of parts");
  }
  if (sync.fragments > 1) refuse(" with sync.fragments above 1: parts are of the whole vector");
}

void check_every(const JobSpec& spec, FieldChecker& checker) {
  const SyncSpec& sync = spec.sync;
  if (sync.every_s != 0) {
    checker.within("/sync/every", sync.every_s, 1, kMaxRoundSeconds);
    if (spec.swarm.stages != 1) {
      checker.refuse("/sync/every",
                     "must be a number of inner steps with swarm.stages other than 1, got a time");
    }
    if (sync.algorithm == SyncAlgorithm::kDdp) {
      checker.refuse("/sync/every", "must be 1" + with_algorithm(sync) +
                                        ", which averages at every inner step, got a time");
    }
    return;
  }
  if (sync.algorithm == SyncAlgorithm::kDdp) {
    return checker.require(sync.every == Steps(1), "/sync/every",
                           "must be 1" + with_algorithm(sync) +
                               ", which averages at every inner step; the intervals of checkpoints "
                               "and evaluations are counted in such rounds",
                           sync.every.count());
  }
  checker.require(sync.every.count() >= 1 && sync.every <= spec.train.steps, "/sync/every",
                  "must be from 1 to train.steps (" + text_of(spec.train.steps.count()) + ")",
                  sync.every.count());
}

// The outer step of these algorithms is fixed; another one asked for by name would be ignored.
void check_fixed_outer(const SyncSpec& sync, FieldChecker& checker) {
  const std::string why = sync.algorithm == SyncAlgorithm::kDdp
                              ? ", whose AdamW step is the only one; set train.lr instead"
                              : ", which only averages; for another outer step use 'diloco'";
  checker.require(sync.outer.lr == 1, "/sync/outer/lr", "must be 1" + with_algorithm(sync) + why,
                  sync.outer.lr);
  checker.require(sync.outer.momentum == 0, "/sync/outer/momentum",
                  "must be 0" + with_algorithm(sync) + why, sync.outer.momentum);
}

void check_balance(const JobSpec& spec, FieldChecker& checker) {
  if (spec.sync.balance == Balance::kEqual) return;
  if (spec.swarm.stages != 1) {
    checker.refuse("/sync/balance",
                   "must be 'equal' with swarm.stages other than 1, where routers share the batch "
                   "by their speed, got 'speed'");
  } else if (spec.sync.algorithm == SyncAlgorithm::kDdp) {
    checker.refuse("/sync/balance", "must be 'equal'" + with_algorithm(spec.sync) +
                                        ", where everybody takes every step, got 'speed'");
  }
}

// Fragments and what goes on while they travel.
void check_fragments(const JobSpec& spec, FieldChecker& checker) {
  const SyncSpec& sync = spec.sync;
  checker.within("/sync/fragments", sync.fragments, 1, kMaxFragments);
  if (sync.fragments <= 1) return;
  checker.require(sync.fragments <= spec.model.layers, "/sync/fragments",
                  "must be at most model.layers (" + text_of(spec.model.layers) +
                      "): a fragment has at least one block",
                  sync.fragments);
  if (sync.every_s == 0 && sync.every.count() % sync.fragments != 0) {
    checker.refuse("/sync/fragments", "must divide sync.every (" + text_of(sync.every.count()) +
                                          "): a round is every / fragments inner steps, got " +
                                          text_of(sync.fragments));
  }
}

void check_overlap(const SyncSpec& sync, FieldChecker& checker) {
  const std::int64_t period =
      sync.fragments >= 1 ? sync.every.count() / sync.fragments : sync.every.count();
  const std::int64_t steps = sync.overlap_steps.count();
  checker.require(steps == 0 || (steps > 0 && steps < period), "/sync/overlap_steps",
                  "must be from 0 to below sync.every / sync.fragments (" + text_of(period) +
                      "): a result is adopted before the next boundary",
                  steps);
  checker.require(sync.blend >= 0 && sync.blend < 1, "/sync/blend", "must be from 0 to below 1",
                  sync.blend);
  if (sync.blend > 0 && steps == 0) {
    checker.refuse("/sync/blend",
                   "must be 0 with sync.overlap_steps = 0, where nothing was trained meanwhile, "
                   "got " +
                       text_of(sync.blend));
  }
}

// Streaming needs pseudo-gradients, one stage and rounds of equal steps.
void check_streaming(const JobSpec& spec, FieldChecker& checker) {
  const SyncSpec& sync = spec.sync;
  check_fragments(spec, checker);
  check_overlap(sync, checker);
  const bool streams = sync.fragments > 1 || sync.overlap_steps > Steps(0);
  if (!streams) return;
  const char* field = sync.fragments > 1 ? "/sync/fragments" : "/sync/overlap_steps";
  const std::string off = sync.fragments > 1 ? "must be 1" : "must be 0";
  if (sync.algorithm == SyncAlgorithm::kNone || sync.algorithm == SyncAlgorithm::kDdp) {
    checker.refuse(field, off + with_algorithm(sync) + ", which averages no pseudo-gradients");
  }
  if (sync.algorithm == SyncAlgorithm::kAsync) {
    checker.refuse(field, off + with_algorithm(sync) + ", whose replicas go on by themselves");
  }
  if (spec.swarm.stages != 1) {
    checker.refuse(field, off +
                              " with swarm.stages other than 1: the replicas of a pipeline step "
                              "together and evaluate what they train");
  }
  if (sync.balance == Balance::kSpeed || sync.every_s > 0) {
    checker.refuse(field, off +
                              " with sync.balance = 'speed' or a time in sync.every: the result "
                              "is adopted at the same step everywhere");
  }
  if (sync.codec == CodecKind::kSparse2) {
    checker.refuse(field, off +
                              " with sync.codec = 'sparse2', whose residual is of the whole "
                              "vector");
  }
}

// Rounds that wait for some of the replicas only: everybody has one stage and one vector.
void check_async(const JobSpec& spec, FieldChecker& checker) {
  const SyncSpec& sync = spec.sync;
  if (sync.algorithm != SyncAlgorithm::kAsync) {
    checker.require(sync.quorum == 0, "/sync/quorum",
                    "must be 0" + with_algorithm(sync) + ", where a round waits for everybody",
                    sync.quorum);
    return;
  }
  const std::string with = with_algorithm(sync);
  const std::int64_t most = spec.swarm.max_replicas > 0 ? spec.swarm.max_replicas : kMaxReplicas;
  checker.within("/sync/quorum", sync.quorum, 0, most);
  if (sync.every_s > 0) {
    checker.refuse("/sync/every", "must be a number of inner steps" + with + ", got a time");
  }
  if (sync.balance != Balance::kEqual) {
    checker.refuse("/sync/balance",
                   "must be 'equal'" + with + ", where nobody waits for a slower one, got 'speed'");
  }
  const bool fits = sync.topology == Topology::kButterfly || sync.topology == Topology::kRing ||
                    sync.topology == Topology::kAuto;
  if (!fits || sync.codec == CodecKind::kSparse2) {
    checker.refuse("/sync/topology", "must be 'butterfly', 'ring' or 'auto'" + with +
                                         ", and the codec a dense one, got " +
                                         quoted(to_string(sync.topology)) + " and " +
                                         quoted(to_string(sync.codec)));
  }
  if (spec.swarm.stages != 1) {
    checker.refuse("/swarm/stages",
                   "must be 1" + with + ": the replicas of a pipeline step together, got " +
                       (spec.swarm.stages == 0 ? quoted("auto") : text_of(spec.swarm.stages)));
  }
}

// With ddp every replica takes the same step, bit for bit, on the host.
void check_optimizer(const JobSpec& spec, FieldChecker& checker) {
  const bool muon = spec.train.optimizer == Optimizer::kMuon;
  if (!muon || spec.sync.algorithm != SyncAlgorithm::kDdp) return;
  checker.refuse("/train/optimizer",
                 "must be 'adamw'" + with_algorithm(spec.sync) +
                     ", whose step has the same bits everywhere; for 'muon' use 'diloco' or "
                     "'local_sgd', got 'muon'");
}

void check_sync(const JobSpec& spec, FieldChecker& checker) {
  const SyncSpec& sync = spec.sync;
  check_streaming(spec, checker);
  check_eager(sync, checker);
  check_async(spec, checker);
  check_every(spec, checker);
  check_balance(spec, checker);
  check_topology(sync, checker);
  check_groups(spec, checker);
  check_feedback(sync, checker);
  check_outer_state(sync, checker);
  if (sync.algorithm == SyncAlgorithm::kLocalSgd || sync.algorithm == SyncAlgorithm::kDdp) {
    return check_fixed_outer(sync, checker);
  }
  checker.require(sync.outer.lr > 0 && sync.outer.lr <= 10, "/sync/outer/lr",
                  "must be above 0 and at most 10", sync.outer.lr);
  checker.require(sync.outer.momentum >= 0 && sync.outer.momentum < 1, "/sync/outer/momentum",
                  "must be from 0 to below 1", sync.outer.momentum);
}

void check_single_replica(const SwarmSpec& swarm, FieldChecker& checker) {
  checker.require(swarm.min_replicas == 1, "/swarm/min_replicas",
                  "must be 1 with sync.algorithm = 'none', which trains on one agent",
                  swarm.min_replicas);
  checker.require(swarm.max_replicas == 0 || swarm.max_replicas == 1, "/swarm/max_replicas",
                  "must be 0 or 1 with sync.algorithm = 'none', which trains on one agent",
                  swarm.max_replicas);
}

void check_stages(const JobSpec& spec, FieldChecker& checker) {
  const std::int64_t stages = spec.swarm.stages, layers = spec.model.layers;
  if (layers >= 1 && (stages < 0 || stages > layers)) {
    return checker.refuse("/swarm/stages",
                          "must be 'auto' or from 1 to model.layers (" + text_of(layers) +
                              "): a stage holds at least one layer, got " + text_of(stages));
  }
  if (stages != 1 && spec.sync.algorithm == SyncAlgorithm::kNone) {
    checker.refuse("/swarm/stages",
                   "must be 1 with sync.algorithm = 'none', which trains on one agent, got " +
                       (stages == 0 ? quoted("auto") : text_of(stages)));
  }
}

void check_schedule(const JobSpec& spec, FieldChecker& checker) {
  if (spec.swarm.schedule != PipelineSchedule::kTwoBufferedWeights) return;
  if (spec.swarm.stages == 1) {
    checker.refuse("/swarm/schedule",
                   "must be 'flush' or '1f1b' with swarm.stages = 1, where no step waits for "
                   "another stage, got '2bw'");
  } else if (spec.sync.algorithm == SyncAlgorithm::kDdp) {
    checker.refuse("/swarm/schedule", "must be 'flush' or '1f1b'" + with_algorithm(spec.sync) +
                                          ", where every step waits for the average, got '2bw'");
  }
}

void check_swarm(const JobSpec& spec, FieldChecker& checker) {
  const SwarmSpec& swarm = spec.swarm;
  check_stages(spec, checker);
  if (swarm.stages != 1 && spec.model.tie_embeddings == true) {
    checker.refuse("/model/tie_embeddings",
                   "must be false with swarm.stages other than 1: no stage holds both the "
                   "embedding and the head, got true");
  }
  check_schedule(spec, checker);
  if (spec.sync.algorithm == SyncAlgorithm::kNone) return check_single_replica(swarm, checker);
  checker.within("/swarm/min_replicas", swarm.min_replicas, 1, kMaxReplicas);
  checker.require(swarm.max_replicas == 0 || (swarm.max_replicas >= swarm.min_replicas &&
                                              swarm.max_replicas <= kMaxReplicas),
                  "/swarm/max_replicas",
                  "must be 0 (every agent that can) or from min_replicas (" +
                      text_of(swarm.min_replicas) + ") to " + text_of(kMaxReplicas),
                  swarm.max_replicas);
}

std::int64_t llama_parameters(const ModelSpec& m) {
  const std::int64_t kv_width = m.kv_heads * (m.hidden / m.heads);
  const std::int64_t attention = 2 * m.hidden * m.hidden + 2 * m.hidden * kv_width;
  const std::int64_t layer = attention + 3 * m.hidden * m.ffn + 2 * m.hidden;
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
double spared_by_muon(const ModelSpec& m) {
  const bool llama = m.family == ModelFamily::kLlama;
  const std::int64_t kv_width = m.kv_heads * (m.hidden / m.heads);
  const std::int64_t matrices =
      2 * m.hidden * m.hidden + 2 * m.hidden * kv_width + (llama ? 3 : 2) * m.hidden * m.ffn;
  const std::int64_t largest = m.hidden * std::max(m.hidden, m.ffn);
  return static_cast<double>(m.layers) * static_cast<double>(matrices) -
         static_cast<double>(kMuonWorkspace * largest);
}

ModelSpec derived(ModelSpec model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
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
double activation_values(const ModelSpec& m, std::int64_t microbatch) {
  const auto tokens = static_cast<double>(microbatch) * static_cast<double>(m.context);
  const auto per_token = static_cast<double>(12 * m.hidden + 4 * m.ffn);
  const double scores = 2.0 * static_cast<double>(m.heads) * static_cast<double>(m.context);
  return tokens * (static_cast<double>(m.layers) * (per_token + scores) +
                   3.0 * static_cast<double>(m.vocab));
}

std::int64_t derived_microbatch(const JobSpec& spec) {
  const std::int64_t batch = spec.train.batch;
  if (spec.swarm.stages == 1) return batch;
  std::int64_t size = std::max<std::int64_t>(1, batch / kPipelineMicrobatches);
  while (batch % size != 0) --size;
  return size;
}

}  // namespace

JobSpec default_spec(SyncAlgorithm algorithm) {
  JobSpec spec;
  spec.sync.algorithm = algorithm;
  const bool ddp = algorithm == SyncAlgorithm::kDdp;
  if (ddp || algorithm == SyncAlgorithm::kLocalSgd) spec.sync.outer = {1, 0};
  if (!ddp) return spec;
  const std::int64_t usual_steps = spec.sync.every.count();
  spec.sync.every = Steps(1);
  spec.sync.codec = CodecKind::kFp32;
  spec.sync.clip = false;
  spec.checkpoint.every_rounds *= usual_steps;
  spec.eval.every_rounds *= usual_steps;
  return spec;
}

std::vector<FieldError> validate(const JobSpec& spec) {
  FieldChecker checker;
  check_name(spec.name, checker);
  check_model(spec, checker);
  check_data(spec.data, checker);
  check_train(spec.train, checker);
  check_optimizer(spec, checker);
  check_sync(spec, checker);
  check_swarm(spec, checker);
  checker.within("/checkpoint/every_rounds", spec.checkpoint.every_rounds, 0, kMaxRounds);
  checker.within("/checkpoint/keep", spec.checkpoint.keep, 1, kMaxRounds);
  checker.within("/eval/every_rounds", spec.eval.every_rounds, 0, kMaxRounds);
  checker.within("/eval/batches", spec.eval.batches, 1, kMaxEvalBatches);
  return checker.take();
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
  if (full.train.optimizer == Optimizer::kMuon) state -= spared_by_muon(full.model);
  const double bytes = (state + activation_values(full.model, full.train.microbatch)) * kFloatBytes;
  constexpr double kMost = 9.0e18;
  return Bytes(static_cast<std::int64_t>(std::min(bytes, kMost)));
}

std::int64_t round_count(const JobSpec& spec) {
  if (spec.sync.every_s > 0 || spec.sync.algorithm == SyncAlgorithm::kAsync) return 0;
  const std::int64_t length = spec.sync.every.count() / spec.sync.fragments;
  return (spec.train.steps.count() + length - 1) / length;
}

}  // namespace shoal
