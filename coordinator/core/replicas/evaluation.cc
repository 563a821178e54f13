#include "coordinator/core/replicas/evaluation.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/movement.h"

namespace shoal::coordinator {
namespace {

// The replica that evaluates this slice: the one it was given to, or the first in-sync replica when
// that one is gone.
std::optional<ReplicaId> evaluator(const State& state, const RoundKey& key, ReplicaId given_to) {
  if (is_present(state, given_to)) return given_to;
  for (const ReplicaId replica : in_sync_replicas(state, state.jobs.at(key.job), 0)) {
    if (state.replicas.at(replica).held_round == key.round) return replica;
  }
  return std::nullopt;
}

struct OpenSlice {
  EvalSlice slice;
  ReplicaId owner, evaluator;
};

std::vector<OpenSlice> open_slices(const State& state, const RoundKey& key) {
  std::vector<OpenSlice> open;
  for (const ReplicaId owner : round_replicas(state, key)) {
    const EvalSlice slice = slice_of(state, key, state.contributions.at({key, owner}));
    const auto who = evaluator(state, key, owner);
    if (slice.slices > 0 && who) open.push_back({slice, owner, *who});
  }
  return open;
}

}  // namespace

void share_evaluation(Transaction& tx, const RoundKey& key, std::vector<ReplicaId> followers) {
  const RoundRecord& round = tx.state().rounds.at(key);
  SHOAL_CHECK(round.state == RoundState::kCommitted, "its state is not known yet");
  SHOAL_CHECK(round.eval_slices == 0, "shared twice: batches would count twice");
  const JobRecord& job = tx.state().jobs.at(key.job);
  std::erase_if(followers, [&](ReplicaId id) { return tx.state().replicas.at(id).stage != 0; });
  if (job.spec.eval.batches == 0 || followers.empty()) return;
  const auto slices =
      std::min<std::int64_t>(static_cast<std::int64_t>(followers.size()), job.spec.eval.batches);
  tx.round(key).eval_slices = static_cast<std::int32_t>(slices);
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    tx.contribution(key, followers[static_cast<std::size_t>(slice)]).eval_slice = slice;
  }
}

EvalSlice slice_of(const State& state, const RoundKey& key,
                   const ContributionRecord& contribution) {
  if (contribution.eval_slice < 0 || contribution.evaluated) return {0, 0, 0};
  return {contribution.eval_slice, state.rounds.at(key).eval_slices,
          state.jobs.at(key.job).spec.eval.batches};
}

void pass_on_slices(Transaction& tx, const RoundKey& key) {
  for (const OpenSlice& open : open_slices(tx.state(), key)) {
    if (open.evaluator != open.owner) tx.tell(open.evaluator, Evaluate{key, open.slice});
  }
}

void resend_slices(Transaction& tx, const RoundKey& key, ReplicaId replica) {
  for (const OpenSlice& open : open_slices(tx.state(), key)) {
    if (open.evaluator == replica) tx.tell(replica, Evaluate{key, open.slice});
  }
}

void take_over_slices(Transaction& tx, ReplicaId replica) {
  const JobRecord& job = tx.state().jobs.at(tx.state().replicas.at(replica).job);
  const RoundRecord* round = committed_round(tx.state(), job);
  if (round == nullptr) return;
  for (const OpenSlice& open : open_slices(tx.state(), round->key)) {
    const bool of_another = open.owner != replica && open.evaluator == replica;
    if (of_another) tx.tell(replica, Evaluate{round->key, open.slice});
  }
}

void on_evaluated(Transaction& tx, ReplicaId replica, const Evaluated& evaluated) {
  const RoundRecord* known = tx.state().rounds.find(evaluated.key);
  if (known == nullptr || known->eval_slices != evaluated.slice.slices) return;
  for (const ReplicaId owner : round_replicas(tx.state(), evaluated.key)) {
    const auto& given = tx.state().contributions.at({evaluated.key, owner});
    if (given.eval_slice != evaluated.slice.slice || given.evaluated) continue;
    tx.contribution(evaluated.key, owner).evaluated = true;
    RoundRecord& round = tx.round(evaluated.key);
    round.validation_sum += evaluated.loss_sum;
    round.validation_tokens += evaluated.tokens;
    if (!evaluation_complete(round, tx.state()) || round.validation_tokens.n == 0) return;
    round.validation_loss = round.validation_sum / static_cast<double>(round.validation_tokens.n);
    JobRecord& job = tx.job(evaluated.key.job);
    job.validation_loss = round.validation_loss;
    job.validation_round = evaluated.key.round;
    tx.event(Severity::kInfo, event_kind::kEvaluation,
             {.job = job.id, .replica = replica, .round = evaluated.key.round},
             "round " + std::to_string(evaluated.key.round) + ": validation loss " +
                 std::to_string(round.validation_loss));
    return;
  }
}

bool evaluation_complete(const RoundRecord& round, const State& state) {
  for (const ReplicaId replica : round_replicas(state, round.key)) {
    const auto& contribution = state.contributions.at({round.key, replica});
    if (contribution.eval_slice >= 0 && !contribution.evaluated) return false;
  }
  return true;
}

std::optional<Instant> evaluation_deadline(Transaction& tx, const RoundRecord& round,
                                           ReplicaId replica) {
  const Options& options = tx.options();
  if (tx.state().jobs.at(round.key.job).stages.size() > 1) {
    return tx.deadline(round.committed_at, options.evaluation_limit);
  }
  const auto since = silent_since(tx, replica, round.committed_at);
  if (!since) return std::nullopt;
  return tx.deadline(*since, silence_limit(tx.state(), replica) + options.close_limit);
}

}  // namespace shoal::coordinator
