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

// When an asynchronous round is frozen: a moment after enough reports. None while there are fewer.
std::optional<Instant> enough_since(const QuorumInput& input, const Options& options) {
  if (input.enough == 0) return std::nullopt;
  const auto at = reported_at(input, static_cast<std::size_t>(input.enough), true);
  if (!at) return std::nullopt;
  return *at + seconds_f((*at - input.opened_at).seconds() * options.quorum_grace);
}

// All awaited reports are there: freeze, unless replicas are too few or a joiner has its short
// grace. The grace counts from the moment when half have reported, so after late reports it is
// over.
QuorumDecision ready(const QuorumInput& input, const Options& options, QuorumReason reason,
                     QuorumDecision decision) {
  if (input.in_sync < input.min_replicas) {
    decision.reason = QuorumReason::kBelowMinReplicas;
    return decision;
  }
  const auto half = reported_at(input, (input.trainers.size() + 1) / 2, false);
  for (const Instant since : input.loading_since) {
    const Instant until = std::min(since, half.value_or(since)) + options.join_grace;
    if (input.now >= until) continue;
    decision.reason = QuorumReason::kWaitingForJoiners;
    decision.wakeup_at = std::max(until, decision.wakeup_at.value_or(until));
  }
  if (decision.wakeup_at) return decision;
  decision.verdict = QuorumVerdict::kFreeze;
  decision.reason = reason;
  return decision;
}

void schedule_wakeup(QuorumDecision& decision, Instant at) {
  decision.wakeup_at = std::min(at, decision.wakeup_at.value_or(at));
}

// Half have reported. The others are told to report after a grace, and then have their own time
// limit.
QuorumDecision judge_stragglers(const QuorumInput& input, const Options& options, Instant half,
                                QuorumDecision decision) {
  Instant came_last;  // of the silent ones
  for (const auto& member : input.trainers) {
    if (!member.reported_at) came_last = std::max(came_last, member.serving_since);
  }
  const Duration share = seconds_f((half - input.opened_at).seconds() * options.straggler_factor);
  const Instant close_at = std::max(half, came_last) + std::max(options.straggler_min, share);
  if (input.now < close_at) {
    schedule_wakeup(decision, close_at);
    return decision;
  }
  std::vector<ReplicaId> unresponsive;
  for (const auto& member : input.trainers) {
    if (member.reported_at) continue;
    const Instant give_up_at = close_at + std::max(options.close_limit, member.patience);
    if (input.now >= give_up_at) unresponsive.push_back(member.replica);
    if (input.now < give_up_at) schedule_wakeup(decision, give_up_at);
  }
  decision.verdict = unresponsive.empty() ? QuorumVerdict::kClose : QuorumVerdict::kGiveUp;
  decision.reason = unresponsive.empty() ? QuorumReason::kStragglers : QuorumReason::kUnresponsive;
  if (!unresponsive.empty()) decision.silent = std::move(unresponsive);
  return decision;
}

// Replicas that count as hung because of their own silence (hung_at).
struct Hung {
  std::vector<ReplicaId> to_ask, unresponsive;
  std::optional<Instant> wakeup_at;
};

Hung find_hung(const QuorumInput& input, const Options& options) {
  Hung hung;
  for (const auto& member : input.trainers) {
    if (member.reported_at || !member.hung_at) continue;
    const Instant give_up_at = *member.hung_at + options.close_limit;
    if (input.now >= give_up_at) {
      hung.unresponsive.push_back(member.replica);
      continue;
    }
    const bool ask = input.now >= *member.hung_at;
    if (ask) hung.to_ask.push_back(member.replica);
    const Instant next = ask ? give_up_at : *member.hung_at;
    hung.wakeup_at = std::min(next, hung.wakeup_at.value_or(next));
  }
  return hung;
}

// Judges the reports alone, regardless of replicas that hang.
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
    decision.wakeup_at = since;
    return decision;
  }
  const auto half = reported_at(input, (input.trainers.size() + 1) / 2, false);
  if (!half) return decision;
  return judge_stragglers(input, options, *half, std::move(decision));
}

}  // namespace

std::int64_t enough_reports(const SyncSpec& sync, std::int64_t trainers) {
  if (sync.algorithm != SyncAlgorithm::kAsync) return 0;
  return std::min(sync.quorum > 0 ? sync.quorum : (trainers + 1) / 2, trainers);
}

QuorumDecision decide_quorum(const QuorumInput& input, const Options& options) {
  QuorumDecision decision = judge_reports(input, options);
  Hung hung = find_hung(input, options);
  if (!hung.unresponsive.empty() && decision.verdict != QuorumVerdict::kFreeze) {
    decision.verdict = QuorumVerdict::kGiveUp;
    decision.reason = QuorumReason::kHung;
    decision.silent = std::move(hung.unresponsive);
    return decision;
  }
  decision.hung = std::move(hung.to_ask);
  if (hung.wakeup_at) schedule_wakeup(decision, *hung.wakeup_at);
  return decision;
}

}  // namespace shoal::coordinator
