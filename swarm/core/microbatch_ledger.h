// Who has counted what. Every microbatch of a step is a key (step, microbatch, attempt); a new
// attempt of the same microbatch supersedes the older ones. The router's ledger says which answer
// counts and whether it may send again; the replica's ledger says whether a gradient is added, so
// that each one counts once per step however often it was computed. Frames of an older step,
// attempt or incarnation are dropped and counted. Time-outs alone never send again: that is a retry
// storm.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "base/ids.h"
#include "base/time.h"

namespace shoal::swarm {

struct MicrobatchKey {
  std::int64_t step = 0;
  std::int32_t microbatch = 0;
  std::int32_t attempt = 0;  // from 1
  auto operator<=>(const MicrobatchKey&) const = default;
};

enum class RetryCause {
  kReplicaLost,  // connection, keep-alive or the view say so
  kCancelled,    // the receiver confirmed that it dropped the attempt
  kTimeout,      // nothing is known: never a reason
};
enum class RetryVerdict { kRetry, kNotCancelled, kBudgetSpent, kStale };
enum class AnswerVerdict { kCounted, kStale };
const char* to_string(RetryVerdict verdict);

// A token bucket: `per_microbatch` for every microbatch admitted, `per_s` by time so that a step
// whose every microbatch is lost still goes on, at most `burst`.
struct RetryBudget {
  double per_microbatch = 0.1;
  double per_s = 1;
  double burst = 256;
};

struct Retry {
  RetryVerdict verdict = RetryVerdict::kStale;
  MicrobatchKey key;  // of the new attempt, with kRetry
};

class RouterLedger {
 public:
  RouterLedger(RetryBudget budget, Instant now);

  // The step before must be complete.
  void open_step(std::int64_t step, std::int32_t microbatches);
  bool can_admit() const { return admitted_ < count_; }
  MicrobatchKey admit();  // requires can_admit()
  Retry retry(Instant now, MicrobatchKey lost, RetryCause cause);
  AnswerVerdict answer(MicrobatchKey key);

  bool current(MicrobatchKey key) const;  // the newest attempt of an open microbatch
  bool complete() const { return answered_ == count_; }
  std::int32_t outstanding() const { return admitted_ - answered_; }
  std::int64_t retries() const { return retries_; }
  std::int64_t stale() const { return stale_; }

 private:
  RetryBudget budget_;
  double tokens_ = 0;
  Instant refilled_;
  std::int64_t step_ = 0, retries_ = 0, stale_ = 0;
  std::int32_t count_ = 0, admitted_ = 0, answered_ = 0;
  std::vector<std::int32_t> attempt_;  // by microbatch; 0: not admitted, -1: answered
};

enum class GradientVerdict {
  kAdd,
  kAnswerOnly,  // this step's gradient holds it already; the attempt is answered, not added
  kOldStep,
  kFutureStep,  // the sender is ahead: this replica has not heard that the step is over
  kOldIncarnation,
};
inline constexpr std::size_t kGradientVerdicts = 5;
const char* to_string(GradientVerdict verdict);

class ReplicaLedger {
 public:
  explicit ReplicaLedger(std::int64_t step) : step_(step) {}

  // The view names the incarnation of every live sender; an older one is fenced for good.
  void admit_sender(AgentId sender, Incarnation incarnation);
  GradientVerdict accept(MicrobatchKey key, AgentId sender, Incarnation incarnation);
  void next_step() { ++step_, added_.clear(); }

  std::int64_t step() const { return step_; }
  std::int32_t added() const { return static_cast<std::int32_t>(added_.size()); }
  std::int64_t count(GradientVerdict verdict) const {
    return counts_[static_cast<std::size_t>(verdict)];
  }

 private:
  GradientVerdict judge(MicrobatchKey key, AgentId sender, Incarnation incarnation);

  std::int64_t step_;
  FlatMap<AgentId, Incarnation> senders_;
  std::vector<std::int32_t> added_;  // microbatches of this step, sorted; a replica sees its share
  std::array<std::int64_t, kGradientVerdicts> counts_{};
};

}  // namespace shoal::swarm
