#include "coordinator/core/rounds/nonfinite.h"

#include <algorithm>
#include <cmath>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/naming.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kRemedy =
    "lower train.lr, clip the gradients, or look for values that are not finite in the data and in "
    "the loss";

std::string steps_of(const RoundRecord& round) {
  return "inner steps " + std::to_string(round.from_step.count()) + " to " +
         std::to_string(round.to_step.count());
}

void tell(Transaction& tx, const RoundKey& key, const ContributionRecord& contribution) {
  tx.event(Severity::kWarning, event_kind::kContributionRejected,
           {.job = key.job,
            .agent = contribution.agent,
            .replica = contribution.replica,
            .round = key.round},
           "round " + std::to_string(key.round) + ": the values of " +
               display_name(tx.state(), contribution.replica) + " are not finite (" +
               steps_of(tx.state().rounds.at(key)) +
               "); what it trained does not count, and it returns to the anchor: " + kRemedy);
}

}  // namespace

bool is_finite(const RoundReport& report) {
  return report.nonfinite == 0 && std::isfinite(report.norm);
}

void note_nonfinite(Transaction& tx, const RoundKey& key, const std::vector<ReplicaId>& members) {
  auto& in_row = tx.volatile_state().timers[key.job].nonfinite_rounds;
  for (const ReplicaId id : members) {
    const ContributionRecord& contribution = tx.state().contributions.at({key, id});
    if (contribution.reject_reason == RejectReason::kNonFinite) {
      if (++in_row[id] == 1) tell(tx, key, contribution);
    } else if (contribution.weight > 0) {
      in_row.erase(id);
    }
  }
}

bool fails_as_nonfinite(Transaction& tx, ReplicaId replica, const RoundReport& report) {
  auto& in_row = tx.volatile_state().timers[report.key.job].nonfinite_rounds;
  const std::int32_t* rounds = in_row.find(replica);
  if (is_finite(report) || rounds == nullptr || *rounds + 1 < kNonFiniteRoundsMax) return false;
  in_row.erase(replica);
  fail_replica(tx, replica, ReplicaFailure::kNonFiniteLoss,
               "its values were not finite in " + std::to_string(kNonFiniteRoundsMax) +
                   " rounds in a row: " + kRemedy);
  return true;
}

std::string why_never_finite(const State& state, const RoundKey& key) {
  const RoundRecord& round = state.rounds.at(key);
  if (round.aborts < kNonFiniteTriesMax) return {};
  const bool any = std::ranges::any_of(state.contributions, [&](const auto& entry) {
    return entry.first.first == key && entry.second.reject_reason == RejectReason::kNonFinite;
  });
  if (!any) return {};
  return "no replica had finite values in " + std::to_string(round.aborts) + " tries of round " +
         std::to_string(key.round) + ", up to inner step " +
         std::to_string(round.from_step.count()) + ": " + kRemedy;
}

}  // namespace shoal::coordinator
