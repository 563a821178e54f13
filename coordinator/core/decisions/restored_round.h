// From which round does a job continue when its database is older than its agents? A backup was
// restored, and replicas return with rounds that the database does not know. A pure decision over
// what they hold: the newest round that has a holder in every stage, if all holders agree on the
// commit and, stage by stage, on the state. Members may disagree at most on the newest commit,
// which not all of them had heard of when the database was lost.
#pragma once

#include <optional>
#include <vector>

#include "messages/messages.h"

namespace shoal::coordinator {

struct RestoredRound {
  RoundKey key;                      // as its holders know it
  std::vector<std::size_t> holders;  // of the claims
};

// The anchors of a commit by stage, zero where unknown: as the database has them, or as signed.
struct KnownCommit {
  RoundKey key;
  std::vector<Digest> anchors;
};

// A claim of a known commit with another anchor than the known one is passed over: its memory has
// changed, or it lies. `stages`: of the job, for claims that say no cut; those of one round must
// say the same one. `shared`: all replicas of a stage have one anchor; not where a job averages in
// groups.
std::optional<RestoredRound> decide_restored_round(const std::vector<HeldReplica>& claims,
                                                   const std::vector<KnownCommit>& known,
                                                   std::int32_t stages, bool shared);

}  // namespace shoal::coordinator
