#include "coordinator/core/rounds/round_groups.h"

#include <algorithm>

#include "coordinator/core/records/event_kinds.h"
#include "outer_opt/core/round/groups.h"

namespace shoal::coordinator {
namespace {

// Replicas that are excluded from this freeze belong to no group.
void forget_groups(Transaction& tx, const RoundKey& key) {
  for (const ReplicaId replica : round_replicas(tx.state(), key)) {
    if (tx.state().contributions.at({key, replica}).group == 0) continue;
    tx.contribution(key, replica).group = 0;
  }
}

}  // namespace

std::vector<std::vector<ReplicaId>> form_groups(Transaction& tx, const RoundKey& key,
                                                const std::vector<ReplicaId>& members) {
  forget_groups(tx, key);
  const auto groups =
      outer_opt::groups_of(tx.state().jobs.at(key.job).spec, members.size(), key.round);
  RoundRecord& round = tx.round(key);
  Reduce fresh;
  for (const Reduce& before : round.reduces) {
    fresh.attempt = std::max(fresh.attempt, before.attempt);
  }
  round.reduces.assign(groups.size(), fresh);
  std::vector<std::vector<ReplicaId>> formed(groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const std::size_t member : groups[group]) {
      ContributionRecord& contribution = tx.contribution(key, members[member]);
      contribution.group = static_cast<std::int32_t>(group);
      contribution.member_index = static_cast<std::int32_t>(formed[group].size());
      contribution.state = ContributionState::kMember;
      formed[group].push_back(members[member]);
    }
  }
  return formed;
}

void give_up_group(Transaction& tx, const RoundKey& key, ReduceIndex group,
                   const std::string& why) {
  tx.round(key).reduces.at(static_cast<std::size_t>(group)).given_up = true;
  tx.event(Severity::kWarning, event_kind::kRoundAttempt, {.job = key.job, .round = key.round},
           "round " + std::to_string(key.round) + " continues without group " +
               std::to_string(group) + " (" + why + "), whose members keep their progress");
}

std::optional<Instant> groups_limit(Instant frozen_at,
                                    const std::vector<std::optional<Instant>>& agreed_at,
                                    const Options& options) {
  std::vector<Instant> results;
  for (const auto& at : agreed_at) {
    if (at) results.push_back(*at);
  }
  const std::size_t half = (agreed_at.size() + 1) / 2;
  if (results.size() < half || half == 0) return std::nullopt;
  std::sort(results.begin(), results.end());
  const Instant reached = results[half - 1];
  return reached + (reached - frozen_at) + options.failure_grace;
}

std::vector<std::optional<Instant>> agreed_at(const State& state, const RoundKey& key,
                                              const std::vector<bool>& agrees) {
  std::vector<std::optional<Instant>> newest(agrees.size());
  for (const ReplicaId replica : round_replicas(state, key)) {
    const ContributionRecord& contribution = state.contributions.at({key, replica});
    const auto group = static_cast<std::size_t>(reduce_index(contribution));
    if (contribution.state != ContributionState::kVoted || !agrees[group]) continue;
    newest[group] = std::max(newest[group].value_or(contribution.voted_at), contribution.voted_at);
  }
  return newest;
}

}  // namespace shoal::coordinator
