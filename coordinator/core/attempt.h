// What becomes of a running reduce attempt? A pure decision over what its members have said so far.
//
//   every live member voted, one digest has a strict majority   -> commit with those, the odd ones
//   fail every live member voted, no majority                        -> the same members try again
//   a member died before it voted                               -> the next attempt goes without
//   it,
//                                                                  also when all others voted, if
//                                                                  they could finish without it
//   somebody could not reach a member that still lives          -> after a grace for news of its
//   death,
//                                                                  the most complained-of goes; one
//                                                                  that spoke itself only the 2nd
//                                                                  time
//   nobody says anything past the time limit                    -> the silent ones go
//   attempts spent                                              -> abort; the progress stays
//
// A member lost after its vote does not block the commit. Reducers are members without a say: what
// they "vote" means that they are done, and once all others have voted nobody waits for them.
#pragma once

#include <optional>
#include <vector>

#include "base/digest.h"
#include "base/ids.h"
#include "base/time.h"
#include "coordinator/core/options.h"

namespace shoal::coordinator {

struct AttemptMember {
  ReplicaId replica;
  bool alive = true;
  bool reducer = false;
  bool spared =
      false;  // it owns no part of a butterfly, so others finish with or without its share
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
  kAttemptsSpent,
  kNobodyLeft,
};

struct AttemptDecision {
  AttemptVerdict verdict = AttemptVerdict::kWait;
  AttemptReason reason = AttemptReason::kWaitingForVotes;
  Digest average;                  // kCommit
  std::vector<ReplicaId> exclude;  // live members that must go
  std::optional<Instant> look_again_at;
};

AttemptDecision judge_attempt(const AttemptInput& input, const Options& options);

const char* to_string(AttemptReason reason);

}  // namespace shoal::coordinator
