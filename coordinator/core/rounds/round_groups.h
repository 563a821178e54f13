// Rounds in groups (sync.topology = "moshpit" or "gossip", outer_opt/core/round/groups.h): one
// round of the job has one reduce per group, each with attempts, votes and an average of its own.
//
//   freeze      groups are formed of all members that the round is frozen with
//   reduce    a group that fails tries again, as a stage would
//   give up   a group without a usable pseudo-gradient, out of attempts, or late (groups_limit())
//   commit    when every group agrees or has given up; nobody agrees: the round is aborted
//
// A group that gave up loses nothing: its members keep their anchors, and what they trained is in
// their next pseudo-gradients. It counts now, as data and tokens, since it is trained only once.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Fixes the groups of a round that is being frozen with these members: one Reduce per group,
// whose attempts continue from those of earlier freezes.
std::vector<std::vector<ReplicaId>> form_groups(Transaction& tx, const RoundKey& key,
                                                const std::vector<ReplicaId>& members);

void give_up_group(Transaction& tx, const RoundKey& key, ReduceIndex group, const std::string& why);

// Until when the groups that have no result yet are waited for: as soon as half of all have one,
// as long again as that took, and failure_grace. Nullopt: for as long as their attempts take.
// `agreed_at` has one entry per group.
std::optional<Instant> groups_limit(Instant frozen_at,
                                    const std::vector<std::optional<Instant>>& agreed_at,
                                    const Options& options);

// The newest vote of each group of the round that agrees; `agrees` by group.
std::vector<std::optional<Instant>> agreed_at(const State& state, const RoundKey& key,
                                              const std::vector<bool>& agrees);

}  // namespace shoal::coordinator
