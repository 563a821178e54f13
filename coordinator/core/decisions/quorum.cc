#include "coordinator/core/decisions/quorum.h"

#include <algorithm>
#include <utility>

namespace shoal::coordinator {
namespace {

// When the count-th report came, of those that are `usable` or of all; none while there are fewer.
std::optional<Instant> reported_at(const QuorumInput& input, std::size_t count, bool usable) {
  std::vector<Instant> reports;
  for (const auto& member : input.trainers) {
    if (member.reported_at && (member.usable || !usable)) reports.push_back(*member.reported_at);
  }
  if (reports.size() < count) return std::nullopt;
  std::sort(reports.begin(), reports.end());
  return reports[count - 1];
}

// When a round is sealed for which some reports are enough; none while there are fewer.
std::optional<Instant> enough_since(const QuorumInput& input, const Options& options) {
  if (input.enough == 0) return std::nullopt;
  const auto at = reported_at(input, static_cast<std::size_t>(input.enough), true);
  if (!at) return std::nullopt;
  return *at + seconds_f((*at - input.opened_at).seconds() * options.quorum_grace);
}

// All that is waited for is there: seal, unless replicas are too few or a joiner is given its short
// grace. The half that reported first waits no longer than that for joiners: where others were
// late, it is over.
QuorumDecision ready(const QuorumInput& input, const Options& options, QuorumReason reason,
                     QuorumDecision decision) {
  if (input.holders < input.min_replicas) {
    decision.reason = QuorumReason::kBelowMinReplicas;
    return decision;
  }
  const auto half = reported_at(input, (input.trainers.size() + 1) / 2, false);
  for (const Instant since : input.loading_since) {
    const Instant until = std::min(since, half.value_or(since)) + options.join_grace;
    if (input.now >= until) continue;
    decision.reason = QuorumReason::kWaitingForJoiners;
    decision.look_again_at = std::max(until, decision.look_again_at.value_or(until));
  }
  if (decision.look_again_at) return decision;
  decision.verdict = QuorumVerdict::kSeal;
  decision.reason = reason;
  return decision;
}

void look_at(QuorumDecision& decision, Instant at) {
  decision.look_again_at = std::min(at, decision.look_again_at.value_or(at));
}

// Half have reported: the others are asked after a grace, and have their own patience then.
QuorumDecision judge_stragglers(const QuorumInput& input, const Options& options, Instant half,
                                QuorumDecision decision) {
  Instant came_last;  // of the silent ones
  for (const auto& member : input.trainers) {
    if (!member.reported_at) came_last = std::max(came_last, member.serving_since);
  }
  const Duration share = seconds_f((half - input.opened_at).seconds() * options.straggler_factor);
  const Instant close_at = std::max(half, came_last) + std::max(options.straggler_min, share);
  if (input.now < close_at) {
    look_at(decision, close_at);
    return decision;
  }
  std::vector<ReplicaId> frozen;
  for (const auto& member : input.trainers) {
    if (member.reported_at) continue;
    const Instant freeze_at = close_at + std::max(options.close_limit, member.patience);
    if (input.now >= freeze_at) frozen.push_back(member.replica);
    if (input.now < freeze_at) look_at(decision, freeze_at);
  }
  decision.verdict = frozen.empty() ? QuorumVerdict::kClose : QuorumVerdict::kFreeze;
  decision.reason = frozen.empty() ? QuorumReason::kStragglers : QuorumReason::kFrozen;
  if (!frozen.empty()) decision.silent = std::move(frozen);
  return decision;
}

// Who among the silent ones hangs, by itself.
struct Hung {
  std::vector<ReplicaId> to_ask, frozen;
  std::optional<Instant> look_again_at;
};

Hung find_hung(const QuorumInput& input, const Options& options) {
  Hung hung;
  for (const auto& member : input.trainers) {
    if (member.reported_at || !member.hung_at) continue;
    const Instant freeze_at = *member.hung_at + options.close_limit;
    if (input.now >= freeze_at) {
      hung.frozen.push_back(member.replica);
      continue;
    }
    const bool ask = input.now >= *member.hung_at;
    if (ask) hung.to_ask.push_back(member.replica);
    const Instant next = ask ? freeze_at : *member.hung_at;
    hung.look_again_at = std::min(next, hung.look_again_at.value_or(next));
  }
  return hung;
}

// What the reports say, whoever hangs.
QuorumDecision judge_reports(const QuorumInput& input, const Options& options) {
  QuorumDecision decision;
  decision.trainers = static_cast<std::int64_t>(input.trainers.size());
  for (const auto& member : input.trainers) {
    if (member.reported_at) ++decision.reported;
    if (!member.reported_at) decision.silent.push_back(member.replica);
  }
  if (input.trainers.empty()) {
    decision.reason = QuorumReason::kNobodyTrains;
    return decision;
  }
  if (decision.silent.empty()) {
    return ready(input, options, QuorumReason::kAllReported, std::move(decision));
  }
  if (const auto since = enough_since(input, options)) {
    if (input.now >= *since) {
      return ready(input, options, QuorumReason::kEnoughReported, std::move(decision));
    }
    decision.look_again_at = since;
    return decision;
  }
  const auto half = reported_at(input, (input.trainers.size() + 1) / 2, false);
  if (!half) return decision;
  return judge_stragglers(input, options, *half, std::move(decision));
}

}  // namespace

std::int64_t enough_reports(const SyncSpec& sync, std::int64_t trainers) {
  const auto* async = std::get_if<AsyncSync>(&sync.method);
  if (async == nullptr) return 0;
  return std::min(async->quorum > 0 ? async->quorum : (trainers + 1) / 2, trainers);
}

QuorumDecision decide_quorum(const QuorumInput& input, const Options& options) {
  QuorumDecision decision = judge_reports(input, options);
  Hung hung = find_hung(input, options);
  if (!hung.frozen.empty() && decision.verdict != QuorumVerdict::kSeal) {
    decision.verdict = QuorumVerdict::kFreeze;
    decision.reason = QuorumReason::kHung;
    decision.silent = std::move(hung.frozen);
    return decision;
  }
  decision.hung = std::move(hung.to_ask);
  if (hung.look_again_at) look_at(decision, *hung.look_again_at);
  return decision;
}

}  // namespace shoal::coordinator
