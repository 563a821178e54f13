// A replica that joins a running job: which replicas it may ask for the state, and when it may
// enter. It loads while rounds continue (outer_opt/core/joining/join_session.h), so the round that
// it reports may be past already. Then it is told the newer round, and follows. A round does not
// wait for a joiner that is far behind. It waits once, for a moment, for a joiner that is one round
// behind.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Present replicas of the stage that have a state, the chosen one first: all that a joiner may ask.
// Where there are none, copies of the committed round; where there are none of those, absent
// replicas. Empty: nobody has the state any more, and the joiner gives up at once.
std::vector<PeerAddress> state_sources(const State& state, const ReplicaRecord& joiner);

// Tells the joiner to reach the committed round; what it has loaded already follows to that round.
void name_newest_round(Transaction& tx, ReplicaId joiner);

// The joiner has reached a round of the job's epoch. True: it may serve now. False: it was told a
// newer round, or it waits here until its stage has agreed on its state, or until the next round.
bool may_enter(Transaction& tx, const Loaded& loaded);

// Names the sources that gave it other bytes than those of the committed state that it now holds.
void name_refused_sources(Transaction& tx, const Loaded& loaded);

// The time from which the round's replicas may wait for a joiner; none: they do not wait.
std::optional<Instant> awaited_since(const State& state, const JobRecord& job,
                                     const ReplicaRecord& joiner);

// Takes the joiners that waited; the second function gives joiners their changed sources.
std::vector<Loaded> take_waiting(Transaction& tx, JobId job);
void refresh_sources(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
