// What becomes of a running reduce attempt? A pure decision over what its members have said so far.
//
//   every live member voted, one digest has a strict majority: commit with those, the odd ones fail
//   every live member voted, no majority: the same members try again
//   every live member voted, no contribution is in the average: the next attempt
//   a member died before it voted, others have yet to vote: the next attempt goes without it
//   somebody could not reach a member that still lives: after a grace for news of its death, the
//     most complained-of goes; one that spoke itself only the 2nd time
//   nobody says anything past the time limit: the silent ones go
//   attempts spent: abort; the progress stays
//
// A member lost after its vote does not block the commit. Reducers are members without a say: what
// they "vote" means that they are done, and once all others have voted nobody waits for them.
//
// The owner of a part averages without what a member that owns none had not delivered when it was
// lost, and its vote says so. With a commit `excluded` names those whose contribution does not
// count. One that voted counts, whatever others say of it: a lost member is sent no more averages,
// so a member that has them all was lost to no owner before. One that owns a part counts: nobody
// continues without an owner. For any other, all owners must have voted and none left it out; one
// that is gone, or a reducer that is not done yet, may have. Training data twice is better than
// dropping it.
#pragma once

#include <optional>
#include <vector>

#include "base/digest.h"
#include "base/enumerators.h"
#include "base/ids.h"
#include "base/time.h"
#include "coordinator/core/decisions/options.h"

namespace shoal::coordinator {

using shoal::to_string;

struct AttemptMember {
  ReplicaId replica;
  bool alive = true;
  bool reducer = false;
  bool contributes = true;  // it has a weight
  bool owns_part = false;
  bool excluded = false;  // as the vote of an owner says
  std::optional<Digest> vote;
  bool failed = false;        // it said ReduceFailed
  ReplicaId complains_about;  // then: whom it could not reach; zero: nobody
};

struct AttemptInput {
  Instant now, started_at;
  Duration time_limit;
  std::optional<Instant> first_failure_at;
  std::int32_t attempt = 1;
  std::vector<AttemptMember> members;
};

enum class AttemptVerdict { kWait, kCommit, kRetry, kAbort };
enum class AttemptReason {
  kWaitingForVotes,
  kAllEqual,
  kMajority,  // odd ones are in `exclude`
  kNoMajority,
  kMemberDied,
  kUnreachable,  // the one in `exclude`
  kSilent,       // those in `exclude`
  kFailedAlone,  // a failure that names nobody who must go
  kNobodyCounts,
  kFalseNorm,     // all voted, and a member sent more than it reported (sent_norms.h)
  kFalseAverage,  // all voted, and an audit found another average (audit.h)
  kAttemptsSpent,
  kNobodyLeft,
};
constexpr auto enumerators_of(Of<AttemptReason>) {
  using enum AttemptReason;
  return enumerators<AttemptReason>({{kWaitingForVotes, "waiting_for_votes"},
                                     {kAllEqual, "all_equal"},
                                     {kMajority, "majority"},
                                     {kNoMajority, "no_majority"},
                                     {kMemberDied, "member_died"},
                                     {kUnreachable, "unreachable"},
                                     {kSilent, "silent"},
                                     {kFailedAlone, "failed_alone"},
                                     {kNobodyCounts, "nobody_counts"},
                                     {kFalseNorm, "false_norm"},
                                     {kFalseAverage, "false_average"},
                                     {kAttemptsSpent, "attempts_spent"},
                                     {kNobodyLeft, "nobody_left"}});
}

struct AttemptDecision {
  AttemptVerdict verdict = AttemptVerdict::kWait;
  AttemptReason reason = AttemptReason::kWaitingForVotes;
  Digest average;                   // kCommit
  std::vector<ReplicaId> excluded;  // kCommit
  std::vector<ReplicaId> exclude;   // live members that must go
  std::optional<Instant> wakeup_at;
};

// A later check of a commit may still void the attempt.
AttemptDecision void_attempt(const AttemptInput& input, const Options& options,
                             AttemptReason reason);
AttemptDecision judge_attempt(const AttemptInput& input, const Options& options);

}  // namespace shoal::coordinator
