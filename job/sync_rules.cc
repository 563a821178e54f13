// A key that does not apply shows as a difference between the table that was given and
// effective_sync(). So no pair of keys is forgotten: a difference without an entry in kConflicts is
// refused for the algorithm's sake.
#include "job/sync_rules.h"

#include <algorithm>
#include <string>

#include "job/ineffective_options.h"
#include "job/job_rules.h"
#include "job/sync_questions.h"

namespace shoal {
namespace {

using namespace sync_questions;

constexpr std::int64_t kMaxRoundSeconds = 7 * 86'400;
constexpr std::int64_t kMaxFragments = 1024;
constexpr double kMaxPairsMomentum = 0.5, kMaxGridMomentum = 0.9;  // of rounds in groups

// ---- why a key was left out

// The first entry that holds tells of a key which other one won over it.
struct Conflict {
  const char* pointer;
  bool (*holds)(const JobSpec&);
  // The key that won, whose value is told; or, from a blank on, the words for it.
  const char* with;
  const char* why = "";
  const char* accepted = nullptr;  // nullptr: the effective value
};

constexpr const char* kSteps = "a number of inner steps";
constexpr const char* kAPipeline = " with swarm.stages other than 1";
constexpr const char* kUneven = " with sync.balance = 'speed' or a time in sync.every";
constexpr const char* kStepTogether =
    ": the replicas of a pipeline step together and evaluate what they train";
constexpr const char* kNoPart = ": no member holds all contributions to a value";
constexpr const char* kNoPseudoGradients = ", which averages no pseudo-gradients";
constexpr const char* kGoOn = ", whose replicas continue by themselves";
constexpr const char* kSameStep = ": the result is adopted at the same step everywhere";
constexpr const char* kResidual = ", whose residual is of the whole vector";
constexpr const char* kAverages = ", which only averages; for another outer step use 'diloco'";
constexpr const char* kAdamw = ", which takes only the AdamW step; set train.lr instead";

constexpr Conflict kConflicts[] = {
    {"/sync/algorithm", in_groups, "sync.topology", "", "'diloco' or 'local_sgd'"},
    {"/sync/every", is_ddp, "sync.algorithm",
     ", which averages at every inner step; the intervals of checkpoints and evaluations are "
     "counted in such rounds"},
    {"/sync/every", in_pipeline, kAPipeline, "", kSteps},
    {"/sync/every", is_async, "sync.algorithm", "", kSteps},
    {"/sync/every", in_groups, "sync.topology", "", kSteps},
    {"/sync/balance", in_pipeline, kAPipeline, ", where routers share the batch by their speed"},
    {"/sync/balance", is_ddp, "sync.algorithm", ", where every replica takes every step"},
    {"/sync/balance", is_async, "sync.algorithm", ", where no replica waits for a slower one"},
    {"/sync/balance", in_groups, "sync.topology"},
    {"/sync/topology", is_async, "sync.algorithm", "", "'butterfly', 'ring' or 'auto'"},
    {"/sync/topology", is_sparse, "sync.codec", ", which has no sum", "'allgather' or 'auto'"},
    {"/sync/topology", is_gathered, "sync.codec", ": 'allgather' is for 'sparse2'",
     "'butterfly', 'ring', 'param_server' or 'auto'"},
    {"/sync/codec", is_async, "sync.algorithm", "", "a dense one"},
    {"/sync/codec", in_groups, "sync.topology",
     " (members exchange parameters, of which only small differences matter)"},
    {"/sync/aggregator", is_sparse, "sync.codec", kNoPart},
    {"/sync/aggregator", is_ring, "sync.topology", kNoPart},
    {"/sync/aggregator", in_groups, "sync.topology"},
    {"/sync/fragments", averages_no_pseudo_gradients, "sync.algorithm", kNoPseudoGradients},
    {"/sync/fragments", is_async, "sync.algorithm", kGoOn},
    {"/sync/fragments", in_groups, "sync.topology"},
    {"/sync/fragments", in_pipeline, kAPipeline, kStepTogether},
    {"/sync/fragments", is_uneven, kUneven, kSameStep},
    {"/sync/fragments", is_sparse, "sync.codec", kResidual},
    {"/sync/blend", waits, "sync.overlap_steps", ", where nothing was trained meanwhile"},
    {"/sync/blend", is_eager, "sync.eager", ", which keeps all that was trained meanwhile"},
    {"/sync/eager", waits, "sync.overlap_steps",
     ", where no replica continues before the result arrives"},
    {"/sync/eager", is_robust, "sync.aggregator",
     ": a replica does not know its own part in the result"},
    {"/sync/eager", is_sharded, "sync.outer_state",
     ", where no replica has the outer momentum that its estimate needs"},
    {"/sync/quorum", is_not_async, "sync.algorithm", ", where a round waits for all replicas"},
    {"/sync/outer_state", is_not_diloco, "sync.algorithm",
     ": only 'diloco' can shard its outer momentum"},
    {"/sync/outer_state", in_groups, "sync.topology"},
    {"/sync/outer_state", is_not_nesterov, "sync.outer.method",
     ": only a Nesterov step says by itself what becomes of its momentum"},
    {"/sync/outer_state", has_no_momentum, "sync.outer.momentum", ": there is none to shard"},
    {"/sync/outer_state", has_no_part_owners, "sync.topology",
     ": the owners of a butterfly's parts keep it"},
    {"/sync/outer_state", is_sparse, "sync.codec", ", which has no owners of parts"},
    {"/sync/outer_state", has_fragments, " with sync.fragments above 1",
     ": parts are of the whole vector"},
    {"/sync/audit", is_sparse, "sync.codec", ", where every member computes all averages",
     "left out"},
    {"/sync/outer/method", in_groups, "sync.topology", ", whose outer step is NoLoCo's"},
    {"/sync/outer/method", is_only_averaged, "sync.algorithm", kAverages},
    {"/sync/outer/method", is_ddp, "sync.algorithm", kAdamw},
    {"/sync/outer/method", is_async, "sync.algorithm", ", whose outer step is delayed Nesterov"},
    {"/sync/outer/lr", is_only_averaged, "sync.algorithm", kAverages},
    {"/sync/outer/lr", is_ddp, "sync.algorithm", kAdamw},
    {"/sync/outer/momentum", is_only_averaged, "sync.algorithm", kAverages},
    {"/sync/outer/momentum", is_ddp, "sync.algorithm", kAdamw},
};

constexpr Conflict kOfTheAlgorithm{"", nullptr, "sync.algorithm"};

const Conflict& conflict_of(const std::string& pointer, const JobSpec& options) {
  // What cannot stream has neither.
  const std::string key = pointer == "/sync/overlap_steps" ? "/sync/fragments" : pointer;
  const auto found = std::ranges::find_if(
      kConflicts, [&](const Conflict& each) { return each.pointer == key && each.holds(options); });
  return found == std::end(kConflicts) ? kOfTheAlgorithm : *found;
}

// ---- the given and the effective table, key by key

struct Key {
  std::string pointer, text;  // "/sync/outer/lr", "0.9"
};

std::string key_text(Steps value) { return text_of(value.count()); }
std::string key_text(bool value) { return value ? "true" : "false"; }
std::string key_text(std::int64_t value) { return text_of(value); }
std::string key_text(double value) { return text_of(value); }
template <HasEnumerators Word>
std::string key_text(Word word) {
  return quoted(to_string(word));
}

template <HasFields Table>
void add_keys(const Table& table, const std::string& path, std::vector<Key>& keys) {
  for_each_field(table, [&](const FieldInfo& field, const auto& value) {
    if constexpr (HasFields<std::remove_cvref_t<decltype(value)>>) {
      add_keys(value, path + field.name + "/", keys);
    } else {
      keys.push_back({path + field.name, key_text(value)});
    }
  });
}

// sync.every is one key, whose member for times is every_s.
std::vector<Key> keys_of(const SyncSpec& sync) {
  std::vector<Key> keys;
  add_keys(sync, "/sync/", keys);
  std::erase_if(keys, [](const Key& key) { return key.pointer == "/sync/every_s"; });
  if (sync.every_s == 0) return keys;
  std::ranges::find(keys, "/sync/every", &Key::pointer)->text = "a time";
  return keys;
}

std::string phrase(const char* with, const std::vector<Key>& given) {
  if (*with == ' ') return with;
  std::string pointer = "/" + std::string(with);
  std::ranges::replace(pointer, '.', '/');
  return " with " + std::string(with) + " = " +
         std::ranges::find(given, pointer, &Key::pointer)->text;
}

// An adoption without its overlap says nothing new.
bool is_told_already(const std::string& pointer, const JobSpec& given, const SyncSpec& effective) {
  if (pointer == "/sync/topology") {
    return given.sync.topology == Topology::kAuto && effective.topology == Topology::kAllgather;
  }
  return (pointer == "/sync/blend" || pointer == "/sync/eager") &&
         given.sync.overlap_steps != effective.overlap_steps;
}

// ---- the effective values

void check_period(const JobSpec& options, const SyncSpec& sync, FieldChecker& checker) {
  if (sync.every_s != 0) return checker.within("/sync/every", sync.every_s, 1, kMaxRoundSeconds);
  checker.require(sync.every.count() >= 1 && sync.every <= options.train.steps, "/sync/every",
                  "must be from 1 to train.steps (" + text_of(options.train.steps.count()) + ")",
                  sync.every.count());
}

void check_fragments(const JobSpec& options, const SyncSpec& sync, FieldChecker& checker) {
  checker.within("/sync/fragments", sync.fragments, 1, kMaxFragments);
  if (sync.fragments <= 1) return;
  checker.require(sync.fragments <= options.model.layers, "/sync/fragments",
                  "must be at most model.layers (" + text_of(options.model.layers) +
                      "): a fragment has at least one block",
                  sync.fragments);
  checker.require(sync.every.count() % sync.fragments == 0, "/sync/fragments",
                  "must divide sync.every (" + text_of(sync.every.count()) +
                      "): a round is every / fragments inner steps",
                  sync.fragments);
}

void check_overlap(const SyncSpec& sync, FieldChecker& checker) {
  const std::int64_t steps = sync.overlap_steps.count();
  const std::int64_t period = sync.every.count() / std::max<std::int64_t>(1, sync.fragments);
  checker.require(steps == 0 || (steps > 0 && steps < period), "/sync/overlap_steps",
                  "must be at least 0 and below sync.every / sync.fragments (" + text_of(period) +
                      "): a result is adopted before the next boundary",
                  steps);
  checker.require(sync.blend >= 0 && sync.blend < 1, "/sync/blend",
                  "must be at least 0 and below 1", sync.blend);
}

void check_quorum(const JobSpec& options, const SyncSpec& sync, FieldChecker& checker) {
  const std::int64_t all = options.swarm.max_replicas;
  checker.within("/sync/quorum", sync.quorum, 0, all > 0 ? all : kMaxReplicas);
}

// In groups more momentum lets replicas drift apart (outer_opt/core/round/groups_test.cc). Error
// feedback and outer momentum both add up what was not applied yet; together they diverge.
void check_momentum(const SyncSpec& sync, FieldChecker& checker) {
  const double momentum = sync.outer.momentum;
  const bool pairs = sync.topology == Topology::kGossip;
  if (pairs || sync.topology == Topology::kMoshpit) {
    const double most = pairs ? kMaxPairsMomentum : kMaxGridMomentum;
    checker.require(momentum <= most, "/sync/outer/momentum",
                    "must be at most " + text_of(most) +
                        " (above it replicas drift apart) with sync.topology = " +
                        quoted(to_string(sync.topology)),
                    momentum);
  }
  checker.require(momentum >= 0 && momentum < 1, "/sync/outer/momentum",
                  "must be at least 0 and below 1", momentum);
}

void check_outer(const SyncSpec& sync, FieldChecker& checker) {
  const OuterSpec& outer = sync.outer;
  checker.require(outer.lr > 0 && outer.lr <= 10, "/sync/outer/lr",
                  "must be above 0 and at most 10", outer.lr);
  check_momentum(sync, checker);
  checker.require(outer.beta1 >= 0 && outer.beta1 < 1, "/sync/outer/beta1",
                  "must be at least 0 and below 1", outer.beta1);
  checker.require(outer.beta2 >= 0 && outer.beta2 < 1, "/sync/outer/beta2",
                  "must be at least 0 and below 1", outer.beta2);
  checker.require(outer.eps > 0 && outer.eps <= 1, "/sync/outer/eps",
                  "must be above 0 and at most 1", outer.eps);
  if (sync.codec != CodecKind::kSparse2 || sync.feedback <= 0) return;
  if (!reads_outer(outer, "momentum")) {
    checker.refuse("/sync/outer/method",
                   "must be 'nesterov' or 'sgd' with sync.codec = 'sparse2' and sync.feedback "
                   "above 0: its state and error feedback diverge together; choose 'sgd' with "
                   "sync.outer.momentum = 0, or set sync.feedback = 0, got " +
                       quoted(to_string(outer.method)));
  } else if (outer.momentum > 0) {
    checker.refuse(
        "/sync/outer/momentum",
        "must be 0 with sync.codec = 'sparse2' and sync.feedback above 0: together they "
        "diverge; set sync.outer.lr = 1 and sync.outer.momentum = 0, or sync.feedback = 0, "
        "got " +
            text_of(outer.momentum));
  }
}

}  // namespace

void check_contradictions(const JobSpec& options, FieldChecker& checker) {
  const SyncSpec effective = effective_sync(options);
  const std::vector<Key> given = keys_of(options.sync), kept = keys_of(effective);
  const std::vector<FieldError> ineffective = ineffective_options(options);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& pointer = given[i].pointer;
    if (given[i].text == kept[i].text || is_told_already(pointer, options, effective)) continue;
    if (std::ranges::find(ineffective, pointer, &FieldError::pointer) != ineffective.end())
      continue;
    const Conflict& conflict = conflict_of(pointer, options);
    const std::string accepted = conflict.accepted == nullptr ? kept[i].text : conflict.accepted;
    checker.refuse(pointer.c_str(), "must be " + accepted + phrase(conflict.with, given) +
                                        conflict.why + ", got " + given[i].text);
  }
}

void check_sync(const JobSpec& options, FieldChecker& checker) {
  check_contradictions(options, checker);
  const SyncSpec sync = effective_sync(options);
  check_period(options, sync, checker);
  check_fragments(options, sync, checker);
  check_overlap(sync, checker);
  check_quorum(options, sync, checker);
  const double feedback = options.sync.feedback;  // also where it has no effect
  checker.require(feedback >= 0 && feedback < 1, "/sync/feedback", "must be at least 0 and below 1",
                  feedback);
  checker.require(options.sync.audit >= 0 && options.sync.audit <= 1, "/sync/audit",
                  "must be from 0 to 1", options.sync.audit);
  check_outer(sync, checker);
}

}  // namespace shoal
