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
// grace.
QuorumDecision ready(const QuorumInput& input, const Options& options, QuorumReason reason,
                     QuorumDecision decision) {
  if (input.holders < input.min_replicas) {
    decision.reason = QuorumReason::kBelowMinReplicas;
    return decision;
  }
  for (const Instant since : input.loading_since) {
    const Instant until = since + options.join_grace;
    if (input.now >= until) continue;
    decision.reason = QuorumReason::kWaitingForJoiners;
    decision.look_again_at = std::max(until, decision.look_again_at.value_or(until));
  }
  if (decision.look_again_at) return decision;
  decision.verdict = QuorumVerdict::kSeal;
  decision.reason = reason;
  return decision;
}

}  // namespace

std::int64_t enough_reports(const SyncSpec& sync, std::int64_t trainers) {
  if (sync.algorithm != SyncAlgorithm::kAsync) return 0;
  return std::min(sync.quorum > 0 ? sync.quorum : (trainers + 1) / 2, trainers);
}

QuorumDecision decide_quorum(const QuorumInput& input, const Options& options) {
  QuorumDecision decision;
  decision.trainers = static_cast<std::int64_t>(input.trainers.size());
  Instant came_last;  // of the silent ones
  for (const auto& member : input.trainers) {
    if (member.reported_at) {
      ++decision.reported;
    } else {
      decision.silent.push_back(member.replica);
      came_last = std::max(came_last, member.serving_since);
    }
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

  const Duration share = seconds_f((*half - input.opened_at).seconds() * options.straggler_factor);
  const Instant close_at = std::max(*half, came_last) + std::max(options.straggler_min, share);
  const Instant freeze_at = close_at + options.close_limit;
  if (input.now < close_at) {
    decision.look_again_at = close_at;
  } else if (input.now < freeze_at) {
    decision.verdict = QuorumVerdict::kClose;
    decision.reason = QuorumReason::kStragglers;
    decision.look_again_at = freeze_at;
  } else {
    decision.verdict = QuorumVerdict::kFreeze;
    decision.reason = QuorumReason::kFrozen;
  }
  return decision;
}

const char* to_string(QuorumReason reason) {
  switch (reason) {
    case QuorumReason::kNobodyTrains:
      return "nobody_trains";
    case QuorumReason::kWaitingForReports:
      return "waiting_for_reports";
    case QuorumReason::kWaitingForJoiners:
      return "waiting_for_joiners";
    case QuorumReason::kAllReported:
      return "all_reported";
    case QuorumReason::kEnoughReported:
      return "enough_reported";
    case QuorumReason::kStragglers:
      return "stragglers";
    case QuorumReason::kFrozen:
      return "frozen";
    case QuorumReason::kBelowMinReplicas:
      return "below_min_replicas";
  }
  return "unknown";
}

}  // namespace shoal::coordinator
