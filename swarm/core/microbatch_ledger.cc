// Both ledgers are plain bookkeeping; the rules are in the header.
#include "swarm/core/microbatch_ledger.h"

#include <algorithm>

#include "base/check.h"

namespace shoal::swarm {
namespace {
constexpr std::int32_t kAnswered = -1;
}

RouterLedger::RouterLedger(RetryBudget budget, Instant now)
    : budget_(budget), tokens_(budget.burst), refilled_(now) {}

void RouterLedger::open_step(std::int64_t step, std::int32_t microbatches) {
  SHOAL_CHECK(complete() && step > step_ && microbatches > 0);
  step_ = step;
  count_ = microbatches;
  admitted_ = answered_ = 0;
  attempt_.assign(static_cast<std::size_t>(microbatches), 0);
}

MicrobatchKey RouterLedger::admit() {
  SHOAL_CHECK(can_admit());
  tokens_ = std::min(budget_.burst, tokens_ + budget_.per_microbatch);
  attempt_[admitted_] = 1;
  return {step_, admitted_++, 1};
}

bool RouterLedger::current(MicrobatchKey key) const {
  return key.step == step_ && key.microbatch >= 0 && key.microbatch < admitted_ &&
         key.attempt > 0 && attempt_[key.microbatch] == key.attempt;
}

Retry RouterLedger::retry(Instant now, MicrobatchKey lost, RetryCause cause) {
  if (!current(lost)) return {RetryVerdict::kStale, {}};
  if (cause == RetryCause::kTimeout) return {RetryVerdict::kNotCancelled, {}};
  tokens_ = std::min(budget_.burst, tokens_ + budget_.per_s * (now - refilled_).seconds());
  refilled_ = now;
  if (tokens_ < 1) return {RetryVerdict::kBudgetSpent, {}};
  tokens_ -= 1;
  ++retries_;
  return {RetryVerdict::kRetry, {step_, lost.microbatch, ++attempt_[lost.microbatch]}};
}

AnswerVerdict RouterLedger::answer(MicrobatchKey key) {
  if (!current(key)) return ++stale_, AnswerVerdict::kStale;
  attempt_[key.microbatch] = kAnswered;
  ++answered_;
  return AnswerVerdict::kCounted;
}

void ReplicaLedger::admit_sender(AgentId sender, Incarnation incarnation) {
  Incarnation& known = senders_[sender];
  known = std::max(known, incarnation);
}

GradientVerdict ReplicaLedger::accept(MicrobatchKey key, AgentId sender, Incarnation incarnation) {
  const GradientVerdict verdict = judge(key, sender, incarnation);
  ++counts_[static_cast<std::size_t>(verdict)];
  return verdict;
}

GradientVerdict ReplicaLedger::judge(MicrobatchKey key, AgentId sender, Incarnation incarnation) {
  const Incarnation* known = senders_.find(sender);
  if (known == nullptr || incarnation != *known) {
    return GradientVerdict::kOldIncarnation;
  }
  if (key.step != step_) {
    return key.step < step_ ? GradientVerdict::kOldStep : GradientVerdict::kFutureStep;
  }
  const auto at = std::lower_bound(added_.begin(), added_.end(), key.microbatch);
  if (at != added_.end() && *at == key.microbatch) return GradientVerdict::kAnswerOnly;
  added_.insert(at, key.microbatch);
  return GradientVerdict::kAdd;
}

const char* to_string(RetryVerdict verdict) {
  switch (verdict) {
    case RetryVerdict::kRetry:
      return "retry";
    case RetryVerdict::kNotCancelled:
      return "not_cancelled";
    case RetryVerdict::kBudgetSpent:
      return "budget_spent";
    case RetryVerdict::kStale:
      return "stale";
  }
  return "?";
}

const char* to_string(GradientVerdict verdict) {
  switch (verdict) {
    case GradientVerdict::kAdd:
      return "add";
    case GradientVerdict::kAnswerOnly:
      return "answer_only";
    case GradientVerdict::kOldStep:
      return "old_step";
    case GradientVerdict::kFutureStep:
      return "future_step";
    case GradientVerdict::kOldIncarnation:
      return "old_incarnation";
  }
  return "?";
}

}  // namespace shoal::swarm
