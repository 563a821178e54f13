#include "coordinator/core/decisions/attempt.h"

#include <algorithm>
#include <utility>

#include "base/flat_map.h"

namespace shoal::coordinator {
namespace {

AttemptDecision retry(const AttemptInput& input, const Options& options, AttemptReason reason,
                      std::vector<ReplicaId> exclude) {
  AttemptDecision decision;
  decision.exclude = std::move(exclude);
  const bool spent = input.attempt >= options.attempts_max;
  decision.verdict = spent ? AttemptVerdict::kAbort : AttemptVerdict::kRetry;
  decision.reason = spent ? AttemptReason::kAttemptsSpent : reason;
  return decision;
}

std::vector<ReplicaId> excluded(const AttemptInput& input) {
  const bool owners_voted = std::ranges::all_of(
      input.members, [](const AttemptMember& m) { return !m.owns_part || m.vote.has_value(); });
  std::vector<ReplicaId> excluded;
  for (const auto& member : input.members) {
    if (!member.contributes || member.vote || member.owns_part) continue;
    if (member.excluded || !owners_voted) excluded.push_back(member.replica);
  }
  return excluded;
}

// Every live member that has a say has voted.
AttemptDecision count_votes(const AttemptInput& input, const Options& options) {
  FlatMap<Digest, int> votes;
  int total = 0;
  for (const auto& member : input.members) {
    if (member.alive && !member.reducer) ++votes[*member.vote], ++total;
  }
  const auto best = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (best->second * 2 <= total) return retry(input, options, AttemptReason::kNoMajority, {});
  AttemptDecision decision;
  decision.excluded = excluded(input);
  const auto contributed = std::ranges::count_if(input.members, &AttemptMember::contributes);
  if (std::cmp_equal(contributed, decision.excluded.size())) {
    return retry(input, options, AttemptReason::kNobodyCounts, {});
  }
  decision.verdict = AttemptVerdict::kCommit;
  decision.average = best->first;
  for (const auto& member : input.members) {
    if (!member.alive || member.reducer || *member.vote == best->first) continue;
    decision.exclude.push_back(member.replica);
  }
  decision.reason = decision.exclude.empty() ? AttemptReason::kAllEqual : AttemptReason::kMajority;
  return decision;
}

bool is_live_member(const AttemptInput& input, ReplicaId replica) {
  return std::any_of(input.members.begin(), input.members.end(), [&](const AttemptMember& member) {
    return member.replica == replica && member.alive;
  });
}

// The live member most complained of; ties go to one that neither voted nor failed, then the later
// id.
std::optional<ReplicaId> most_complained(const AttemptInput& input) {
  FlatMap<ReplicaId, int> score;
  for (const auto& member : input.members) {
    if (!member.alive || !member.failed || !is_live_member(input, member.complains_about)) continue;
    score[member.complains_about] += 2;
  }
  for (const auto& member : input.members) {
    if (!member.vote && !member.failed && score.contains(member.replica)) ++score[member.replica];
  }
  std::optional<ReplicaId> worst;
  for (const auto& [replica, points] : score) {
    if (!worst || points >= score.at(*worst)) worst = replica;
  }
  return worst;
}

// A member that still speaks may be blamed for the trouble of another one, so it is excluded only
// at the second complaint.
bool must_go(const AttemptInput& input, ReplicaId replica) {
  for (const auto& member : input.members) {
    if (member.replica == replica && (member.vote || member.failed)) return input.attempt > 1;
  }
  return true;
}

std::vector<ReplicaId> silent_members(const AttemptInput& input) {
  std::vector<ReplicaId> silent;
  for (const auto& member : input.members) {
    if (member.alive && !member.vote && !member.failed) silent.push_back(member.replica);
  }
  return silent;
}

}  // namespace

AttemptDecision void_attempt(const AttemptInput& input, const Options& options,
                             AttemptReason reason) {
  return retry(input, options, reason, {});
}

AttemptDecision judge_attempt(const AttemptInput& input, const Options& options) {
  int alive = 0, alive_voted = 0;
  bool died_before_vote = false, somebody_failed = false;
  for (const auto& member : input.members) {
    alive += member.alive && !member.reducer;
    alive_voted += member.alive && !member.reducer && member.vote.has_value();
    died_before_vote |= !member.alive && !member.vote;
    somebody_failed |= member.alive && member.failed;
  }
  if (alive == 0) {
    AttemptDecision decision;
    decision.verdict = AttemptVerdict::kAbort;
    decision.reason = AttemptReason::kNobodyLeft;
    return decision;
  }
  if (alive_voted == alive) return count_votes(input, options);
  // The remaining members cannot finish without the dead member's part: do not wait for a
  // complaint.
  if (died_before_vote) return retry(input, options, AttemptReason::kMemberDied, {});

  AttemptDecision wait;
  const Instant limit = input.started_at + input.time_limit + options.failure_grace;
  wait.wakeup_at = limit;
  if (somebody_failed && input.first_failure_at) {
    const Instant judge_at = *input.first_failure_at + options.failure_grace;
    if (input.now < judge_at) {
      wait.wakeup_at = judge_at;
      return wait;
    }
    const auto worst = most_complained(input);
    if (!worst || !must_go(input, *worst))
      return retry(input, options, AttemptReason::kFailedAlone, {});
    return retry(input, options, AttemptReason::kUnreachable, {*worst});
  }
  if (input.now < limit) return wait;
  return retry(input, options, AttemptReason::kSilent, silent_members(input));
}

}  // namespace shoal::coordinator
