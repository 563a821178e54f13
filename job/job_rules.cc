// The rules between the values of a job and the defaults that an algorithm brings. Every rule is
// checked and every broken one is told, with the value given and what would be accepted, so that
// one look repairs a job file. Upper bounds are generous: they only keep the arithmetic of sizes
// inside 64 bits. The rules of [sync] are in sync_rules.cc.
#include "job/job_rules.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "base/text.h"
#include "job/data_rules.h"
#include "job/field_checker.h"
#include "job/mixture_order.h"
#include "job/sync_rules.h"

namespace shoal {
namespace {

constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxHidden = 65'536;
constexpr std::int64_t kMaxHeadDim = 4096;
constexpr std::int64_t kMaxFfn = 1 << 20;
constexpr std::int64_t kMaxContext = 1 << 20;
constexpr std::int64_t kMaxVocab = 1 << 22;
constexpr std::int64_t kMaxBatch = 65'536;
constexpr std::int64_t kMaxSteps = 1'000'000'000;
constexpr std::int64_t kMaxRounds = 1'000'000'000;
constexpr std::int64_t kMaxBuddies = 8;
constexpr std::int64_t kMaxEvalBatches = 1'000'000;
constexpr std::int64_t kBytesVocab = 256;
constexpr std::int64_t kUint16Vocab = 65'536;
constexpr std::int64_t kMixtureParts = kMixtureMax;
constexpr double kMaxWeight = 1e6;
constexpr std::size_t kMaxNameLength = 63;  // RFC 1035 label
constexpr std::size_t kMaxDescriptionBytes = 1000;
constexpr std::size_t kMaxPathLength = 4096;

bool is_dns_label(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
  }
  return name.front() != '-' && name.back() != '-';
}

void check_name(const std::string& name, Author author, FieldChecker& checker) {
  if (name.empty() && author == Author::kShoal) return;
  if (name.empty()) return checker.refuse("/name", "is required: a name for the job, e.g. 'kjv'");
  if (!is_dns_label(name)) {
    checker.refuse("/name",
                   "must be 1 to 63 lower-case letters, digits and '-', not starting or "
                   "ending with '-', got " +
                       quoted(name));
  }
}

// Terminals print it, so it has no escape sequences.
void check_description(const std::string& text, FieldChecker& checker) {
  if (text.size() > kMaxDescriptionBytes) {
    return checker.refuse("/description", "must be at most " +
                                              std::to_string(kMaxDescriptionBytes) +
                                              " bytes, got " + std::to_string(text.size()));
  }
  const bool plain = std::ranges::all_of(
      text, [](unsigned char c) { return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t'; });
  if (!plain) checker.refuse("/description", "must be text without control characters");
}

// Without head_dim the heads share the width.
void check_heads(const ModelSpec& model, FieldChecker& checker) {
  checker.within("/model/heads", model.heads, 1, kMaxHidden);
  checker.within("/model/head_dim", model.head_dim, 0, kMaxHeadDim);
  if (model.heads < 1 || model.hidden < 1 || model.head_dim < 0) return;
  const bool llama = model.family == ModelFamily::kLlama;
  if (model.head_dim > 0 && llama) {
    return checker.require(model.head_dim % 2 == 0, "/model/head_dim",
                           "must be even for rotary positions", model.head_dim);
  }
  if (model.hidden % model.heads != 0) {
    return checker.refuse("/model/heads", "must divide hidden (" + text_of(model.hidden) + ")" +
                                              (llama ? ", or set model.head_dim" : "") + ", got " +
                                              text_of(model.heads));
  }
  const std::int64_t head_dim = model.hidden / model.heads;
  if (llama && head_dim % 2 != 0) {
    checker.refuse("/model/heads",
                   "must leave an even head size for rotary positions: hidden / heads = " +
                       text_of(model.hidden) + " / " + text_of(model.heads) + " = " +
                       text_of(head_dim) + "; or set model.head_dim");
  }
  checker.require(model.head_dim == 0 || model.head_dim == head_dim, "/model/head_dim",
                  "must be 0 or hidden / heads (" + text_of(head_dim) +
                      ") with model.family = " + quoted(to_string(model.family)),
                  model.head_dim);
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

bool is_within(double value, double above, double most) { return value > above && value <= most; }

void check_rope(const ModelSpec& model, FieldChecker& checker) {
  const RopeSpec& rope = model.rope;
  checker.require(is_within(rope.theta, 1, 1e12), "/model/rope/theta",
                  "must be above 1 and at most 1e12", rope.theta);
  checker.require(rope.factor >= 1 && rope.factor <= 1e6, "/model/rope/factor",
                  "must be from 1 to 1e6", rope.factor);
  checker.require(is_within(rope.low_freq_factor, 0, 1e6), "/model/rope/low_freq_factor",
                  "must be above 0 and at most 1e6", rope.low_freq_factor);
  checker.require(
      is_within(rope.high_freq_factor, rope.low_freq_factor, 1e6), "/model/rope/high_freq_factor",
      "must be above low_freq_factor (" + text_of(rope.low_freq_factor) + ") and at most 1e6",
      rope.high_freq_factor);
  checker.within("/model/rope/original_context", rope.original_context, 1, kMaxContext);
}

void check_vocab(const JobSpec& options, FieldChecker& checker) {
  const std::int64_t vocab = options.model.vocab;
  if (vocab < 2 || vocab > kMaxVocab) {
    return checker.within("/model/vocab", vocab, 2, kMaxVocab);
  }
  if (options.data.tokenizer == Tokenizer::kBytes) {
    checker.require(vocab >= kBytesVocab, "/model/vocab",
                    "must be at least 256 with data.tokenizer = 'bytes'", vocab);
  } else if (options.data.tokenizer == Tokenizer::kUint16) {
    checker.require(vocab <= kUint16Vocab, "/model/vocab",
                    "must be at most 65536 with data.tokenizer = 'uint16'", vocab);
  }
}

void check_init(const std::string& init, FieldChecker& checker) {
  if (init.size() > kMaxPathLength) {
    return checker.refuse("/model/init", "must be at most " + std::to_string(kMaxPathLength) +
                                             " bytes, got " + std::to_string(init.size()));
  }
  const auto folder = folder_of_weights(init);
  const bool reachable =
      folder && (folder->starts_with('/') || !parse_data_path(*folder).root.empty());
  if (init.empty() || reachable || checkpoint_of_weights(init)) return;
  checker.refuse("/model/init",
                 "must be 'hf:ROOT:PATH' or 'hf:/PATH', a folder beneath a data root of each "
                 "agent, or the id of a checkpoint, such as 'ckpt_7', got " +
                     quoted(init));
}

void check_model(const JobSpec& options, FieldChecker& checker) {
  const ModelSpec& model = options.model;
  checker.within("/model/layers", model.layers, 1, kMaxLayers);
  checker.within("/model/hidden", model.hidden, 1, kMaxHidden);
  check_heads(model, checker);
  check_kv_heads(model, checker);
  checker.require(
      model.ffn >= 0 && model.ffn <= kMaxFfn, "/model/ffn",
      "must be from 1 to " + text_of(kMaxFfn) + ", or 0 for the usual width of the family",
      model.ffn);
  checker.within("/model/context", model.context, 1, kMaxContext);
  check_vocab(options, checker);
  if (model.qkv_bias && model.family == ModelFamily::kGpt2) {
    checker.refuse("/model/qkv_bias",
                   "must be false with model.family = 'gpt2', which always has biases; leave it "
                   "out, got true");
  }
  checker.require(is_within(model.norm_eps, 0, 0.1), "/model/norm_eps",
                  "must be above 0 and at most 0.1", model.norm_eps);
  check_rope(model, checker);
  check_init(model.init, checker);
}

void check_tokenizer_file(const DataSpec& data, FieldChecker& checker) {
  const std::string& path = data.tokenizer_file;
  if (path.empty()) return;
  if (path.size() > kMaxPathLength || path.find('\0') != std::string::npos) {
    return checker.refuse("/data/tokenizer_file",
                          "must be a path of at most 4096 characters without NUL");
  }
  if (data.tokenizer == Tokenizer::kBytes) {
    checker.refuse("/data/tokenizer_file",
                   "must be left out with data.tokenizer = 'bytes', whose text needs no file; or "
                   "set data.tokenizer to the width of the tokens, such as 'uint16'");
  }
}

void check_dataset(const std::string& text, const char* pointer, FieldChecker& checker) {
  if (parse_dataset(text)) return;
  checker.refuse(pointer,
                 "must be the name of a dataset (`shoal dataset ls` lists them) of at most 63 "
                 "lower-case letters, digits, '.', '_' and '-', got " +
                     quoted(text));
}

void check_mixture(const std::vector<MixturePart>& mixture, FieldChecker& checker) {
  if (mixture.size() > kMixtureMax) {
    return checker.refuse("/data/mixture", "must be of at most " + text_of(kMixtureParts) +
                                               " datasets, got " + std::to_string(mixture.size()));
  }
  double sum = 0;
  for (const MixturePart& part : mixture) sum += part.weight;
  std::set<std::string> seen;
  for (const MixturePart& part : mixture) {
    check_dataset(part.dataset, "/data/mixture", checker);
    checker.require(part.weight > 0 && part.weight <= kMaxWeight, "/data/mixture",
                    "must give each dataset a weight above 0 and at most 1e6", part.weight);
    checker.require(part.weight >= MixtureOrder::kShareMin * sum, "/data/mixture",
                    "must give each dataset at least a thousandth of the sum of the weights",
                    part.weight);
    if (!seen.insert(part.dataset.substr(0, part.dataset.find('@'))).second) {
      checker.refuse("/data/mixture",
                     "must name each dataset once, got " + quoted(part.dataset) + " twice");
    }
  }
}

// Exactly one of them says what is read.
void check_source(const DataSpec& data, FieldChecker& checker) {
  const int given =
      int{!data.train.empty()} + int{!data.dataset.empty()} + int{!data.mixture.empty()};
  if (given == 0) {
    checker.refuse("/data/train",
                   "is required: the path of the training file on every agent's host; or set "
                   "data.dataset");
  } else if (given > 1) {
    checker.refuse(data.train.empty() ? "/data/mixture" : "/data/train",
                   "must be left out beside data.dataset or data.mixture: a job reads one of "
                   "them");
  }
}

void check_data(const DataSpec& data, FieldChecker& checker) {
  check_source(data, checker);
  if (data.train.size() > kMaxPathLength || data.train.find('\0') != std::string::npos) {
    checker.refuse("/data/train", "must be a path of at most 4096 characters without NUL");
  }
  if (!data.dataset.empty()) check_dataset(data.dataset, "/data/dataset", checker);
  check_mixture(data.mixture, checker);
  checker.require(data.val_fraction > 0 && data.val_fraction < 1, "/data/val_fraction",
                  "must be above 0 and below 1", data.val_fraction);
  check_tokenizer_file(data, checker);
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
}

// A program has a schedule of its own.
void check_warmup(const JobSpec& options, FieldChecker& checker) {
  const TrainSpec& train = options.train;
  if (options.trainer.kind == TrainerKind::kPython) return;
  checker.require(train.warmup.count() >= 0 && train.warmup < train.steps, "/train/warmup",
                  "must be 0 or more and less than train.steps (" + text_of(train.steps.count()) +
                      "); the default is " + text_of(TrainSpec().warmup.count()),
                  train.warmup.count());
}

void check_beta(double beta, const char* pointer, FieldChecker& checker) {
  checker.require(beta >= 0 && beta < 1, pointer, "must be at least 0 and below 1", beta);
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
  if (!train.continue_from.empty() && !checkpoint_of_weights(train.continue_from)) {
    checker.refuse("/train/continue_from",
                   "must be the id of a checkpoint, such as 'ckpt_7', or be left out, got " +
                       quoted(train.continue_from));
  }
}

std::string with_algorithm(const SyncSpec& sync) {
  return " with sync.algorithm = " + quoted(to_string(sync.algorithm));
}

// With ddp every replica takes the same step, bit for bit, on the host.
void check_optimizer(const JobSpec& options, FieldChecker& checker) {
  const bool muon = options.train.optimizer == Optimizer::kMuon;
  if (!muon || options.sync.algorithm != SyncAlgorithm::kDdp) return;
  checker.refuse("/train/optimizer",
                 "must be 'adamw'" + with_algorithm(options.sync) +
                     ", whose step has the same bits everywhere; for 'muon' use 'diloco' or "
                     "'local_sgd', got 'muon'");
}

// Its moments are a part of what all replicas hold alike.
void check_join(const JobSpec& options, FieldChecker& checker) {
  const bool fresh = options.train.join == JoinMoments::kFresh;
  if (!fresh || options.sync.algorithm != SyncAlgorithm::kDdp) return;
  checker.refuse("/train/join", "must be 'auto' or 'moments'" + with_algorithm(options.sync) +
                                    ", where all replicas take the same step from the same "
                                    "moments; leave it out, got 'fresh'");
}

void check_single_replica(const SwarmSpec& swarm, FieldChecker& checker) {
  checker.require(swarm.min_replicas == 1, "/swarm/min_replicas",
                  "must be 1 with sync.algorithm = 'none', which trains on one agent",
                  swarm.min_replicas);
  checker.require(swarm.max_replicas == 0 || swarm.max_replicas == 1, "/swarm/max_replicas",
                  "must be 0 or 1 with sync.algorithm = 'none', which trains on one agent",
                  swarm.max_replicas);
}

// Empty: the method also trains pipelines.
std::string why_one_stage(const SyncSpec& sync) {
  const bool in_groups = sync.topology == Topology::kMoshpit || sync.topology == Topology::kGossip;
  if (in_groups) return " with sync.topology = " + quoted(to_string(sync.topology));
  if (sync.algorithm == SyncAlgorithm::kNone) {
    return with_algorithm(sync) + ", which trains on one agent";
  }
  if (sync.algorithm == SyncAlgorithm::kAsync) {
    return with_algorithm(sync) + ": the replicas of a pipeline step together";
  }
  return {};
}

void check_stages(const JobSpec& options, FieldChecker& checker) {
  const std::int64_t stages = options.swarm.stages, layers = options.model.layers;
  if (layers >= 1 && (stages < 0 || stages > layers)) {
    return checker.refuse("/swarm/stages",
                          "must be 'auto' or from 1 to model.layers (" + text_of(layers) +
                              "): a stage holds at least one layer, got " + text_of(stages));
  }
  const std::string why = why_one_stage(options.sync);
  if (stages == 1 || why.empty()) return;
  checker.refuse("/swarm/stages",
                 "must be 1" + why + ", got " + (stages == 0 ? quoted("auto") : text_of(stages)));
}

void check_schedule(const JobSpec& options, FieldChecker& checker) {
  if (options.swarm.schedule != PipelineSchedule::kTwoBufferedWeights) return;
  if (options.swarm.stages == 1) {
    checker.refuse("/swarm/schedule",
                   "must be 'flush' or '1f1b' with swarm.stages = 1, where no step waits for "
                   "another stage, got '2bw'");
  } else if (options.sync.algorithm == SyncAlgorithm::kDdp) {
    checker.refuse("/swarm/schedule", "must be 'flush' or '1f1b'" + with_algorithm(options.sync) +
                                          ", where every step waits for the average, got '2bw'");
  }
}

void check_swarm(const JobSpec& options, FieldChecker& checker) {
  const SwarmSpec& swarm = options.swarm;
  check_stages(options, checker);
  if (swarm.stages != 1 && options.model.tie_embeddings == true) {
    checker.refuse("/model/tie_embeddings",
                   "must be false with swarm.stages other than 1: no stage holds both the "
                   "embedding and the head; leave it out, and the head is a matrix of its own, got "
                   "true");
  }
  check_schedule(options, checker);
  checker.within("/swarm/priority", swarm.priority, kPriorityMin, kPriorityMax);
  checker.within("/swarm/copies_min", swarm.copies_min, 1, 2);
  if (options.sync.algorithm == SyncAlgorithm::kNone) return check_single_replica(swarm, checker);
  checker.within("/swarm/min_replicas", swarm.min_replicas, 1, kMaxReplicas);
  checker.require(swarm.max_replicas == 0 || (swarm.max_replicas >= swarm.min_replicas &&
                                              swarm.max_replicas <= kMaxReplicas),
                  "/swarm/max_replicas",
                  "must be 0 (no limit) or from min_replicas (" + text_of(swarm.min_replicas) +
                      ") to " + text_of(kMaxReplicas),
                  swarm.max_replicas);
}

// Empty: replicas of other stages can keep copies of a stage, which all of its replicas share.
std::string why_no_buddies(const JobSpec& options) {
  if (options.sync.algorithm == SyncAlgorithm::kDdp) {
    return with_algorithm(options.sync) +
           ", where AdamW's moments belong to the common state and no copy follows them; use "
           "checkpoint.every_rounds, or 'diloco'";
  }
  if (options.sync.outer_state == OuterState::kSharded) {
    return " with sync.outer_state = 'sharded', where no replica has the whole of its stage; use "
           "'replicated'";
  }
  const std::string alone = why_one_stage(options.sync);
  if (!alone.empty() || options.swarm.stages == 1) {
    return (alone.empty() ? " with swarm.stages = 1" : alone) +
           "; replicas of other stages keep the copies: use swarm.stages of 2 or more, or a second "
           "replica (swarm.min_replicas) and checkpoint.every_rounds";
  }
  return {};
}

void check_buddies(const JobSpec& options, FieldChecker& checker) {
  const std::int64_t buddies = options.checkpoint.buddies;
  checker.within("/checkpoint/buddies", buddies, 0, kMaxBuddies);
  if (buddies <= 0) return;
  const std::string why = why_no_buddies(options);
  if (why.empty()) return;
  checker.refuse("/checkpoint/buddies", "must be 0" + why + ", got " + text_of(buddies));
}

// What a path beneath a folder may look like.
bool is_relative_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathLength || path.front() == '/') return false;
  if (path.find('\0') != std::string_view::npos) return false;
  const std::string parts = "/" + std::string(path) + "/";
  return parts.find("/../") == std::string::npos;
}

bool is_code(std::string_view code) {
  if (!code.starts_with(kCodePrefix)) return false;
  code.remove_prefix(kCodePrefix.size());
  return is_hex(code, kCodeHashLength);
}

void check_program(const TrainerSpec& trainer, FieldChecker& checker) {
  if (!is_relative_path(trainer.entry)) {
    checker.refuse(
        "/trainer/entry",
        "must be the path of a Python program within the code of the job, or beneath the "
        "agents' --trainer-root, e.g. 'train.py', without '..', got " +
            quoted(trainer.entry));
  }
  if (!trainer.code.empty() && !is_code(trainer.code)) {
    checker.refuse(
        "/trainer/code",
        "must be 'sha256:' and the 64 hex characters of an uploaded bundle, as `shoal job "
        "submit FILE --code FOLDER` fills in, got " +
            quoted(trainer.code));
  }
}

// Only a program has these.
void check_no_program(const TrainerSpec& trainer, FieldChecker& checker) {
  const std::string why = "needs trainer.kind = 'python'; set that, or leave it out, got ";
  if (!trainer.entry.empty()) checker.refuse("/trainer/entry", why + quoted(trainer.entry));
  if (!trainer.code.empty()) checker.refuse("/trainer/code", why + quoted(trainer.code));
}

void check_trainer(const JobSpec& options, FieldChecker& checker) {
  if (options.trainer.kind != TrainerKind::kPython) {
    return check_no_program(options.trainer, checker);
  }
  check_program(options.trainer, checker);
  const std::string with = " with trainer.kind = 'python'";
  if (folder_of_weights(options.model.init)) {
    checker.refuse("/model/init", "must be the id of a checkpoint, or left out" + with +
                                      ", whose program loads the weights of a folder itself, got " +
                                      quoted(options.model.init));
  }
  if (options.swarm.stages == 0) {
    checker.refuse("/swarm/stages",
                   "must be a number" + with + ", whose model is cut by the program, got 'auto'");
  }
  if (options.swarm.schedule == PipelineSchedule::kTwoBufferedWeights) {
    checker.refuse("/swarm/schedule", "must be 'flush' or '1f1b'" + with +
                                          ", whose program has one version of its weights, got "
                                          "'2bw'");
  }
  if (options.sync.algorithm == SyncAlgorithm::kDdp) {
    checker.refuse("/sync/algorithm",
                   "must be 'diloco', 'local_sgd', 'async' or 'none'" + with +
                       ", where the program takes its own inner steps, got 'ddp'");
  }
}

}  // namespace

JobSpec default_spec(SyncAlgorithm algorithm, OuterMethod outer) {
  JobSpec options;
  options.sync.algorithm = algorithm;
  options.sync.outer.method = outer;
  options.sync.outer.lr = traits_of(outer).lr;
  const bool ddp = algorithm == SyncAlgorithm::kDdp;
  if (ddp || algorithm == SyncAlgorithm::kLocalSgd) options.sync.outer = {1, 0, outer};
  if (!ddp) return options;
  const std::int64_t usual_steps = options.sync.every.count();
  options.sync.every = Steps(1);
  options.sync.codec = CodecKind::kFp32;
  options.sync.clip = false;
  options.checkpoint.every_rounds *= usual_steps;
  options.eval.every_rounds *= usual_steps;
  return options;
}

std::vector<FieldError> validate(const JobSpec& options, Author author) {
  FieldChecker checker;
  check_name(options.name, author, checker);
  check_description(options.description, checker);
  check_model(options, checker);
  check_data(options.data, checker);
  check_train(options.train, checker);
  check_warmup(options, checker);
  check_optimizer(options, checker);
  check_join(options, checker);
  check_sync(options, checker);
  check_swarm(options, checker);
  checker.within("/checkpoint/every_rounds", options.checkpoint.every_rounds, 0, kMaxRounds);
  checker.within("/checkpoint/keep", options.checkpoint.keep, 1, kMaxRounds);
  check_buddies(options, checker);
  check_trainer(options, checker);
  checker.within("/eval/every_rounds", options.eval.every_rounds, 0, kMaxRounds);
  checker.within("/eval/batches", options.eval.batches, 1, kMaxEvalBatches);
  return checker.take();
}

}  // namespace shoal
