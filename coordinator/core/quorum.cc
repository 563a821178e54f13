#include "coordinator/core/quorum.h"

#include <algorithm>
#include <utility>

namespace shoal::coordinator {
namespace {

// When half of the trainers had reported; none while fewer have.
std::optional<Instant> half_reported_at(const QuorumInput& input) {
  std::vector<Instant> reports;
  for (const auto& member : input.trainers) {
    if (member.reported_at) reports.push_back(*member.reported_at);
  }
  const std::size_t half = (input.trainers.size() + 1) / 2;
  if (reports.size() < half) return std::nullopt;
  std::sort(reports.begin(), reports.end());
  return reports[half - 1];
}

// Everybody is ready: seal, unless too few are there or a joiner is given its short grace.
QuorumDecision all_reported(const QuorumInput& input, const Options& options,
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
  decision.reason = QuorumReason::kAllReported;
  return decision;
}

}  // namespace

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
  if (decision.silent.empty()) return all_reported(input, options, std::move(decision));
  const auto half = half_reported_at(input);
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
