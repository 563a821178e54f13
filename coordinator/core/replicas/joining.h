// A replica that joins a job that trains: whom it may ask for the state, and when the round it has
// come to lets it in. It loads while rounds continue (outer_opt/core/joining/join_session.h), so
// what it says it holds may be past already: then it is named the newer round, and follows. Nobody
// waits for one that is far; one that has only a round to follow is waited for once, for a moment.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Present replicas of the stage that have a state, the chosen one first: all that a joiner may ask.
// Where there are none, copies of the committed round; where there are none of those, absent
// replicas. Empty: nobody has the state any more, and the joiner gives up at once.
std::vector<PeerAddress> state_sources(const State& state, const ReplicaRecord& joiner);

// What it is told to hold is the committed round from now on; whatever it has already follows.
void name_newest_round(Transaction& tx, ReplicaId joiner);

// It has come to a round of the job's epoch. True: it may serve now. False: it was named the
// newer round, or waits here until its stage has settled what it holds, or the next round begins.
bool may_enter(Transaction& tx, const Loaded& loaded);

// Names the sources that gave it other bytes than those of the committed state that it now holds.
void name_refused_sources(Transaction& tx, const Loaded& loaded);

// Since when the round's replicas may wait for a joiner; none: they do not.
std::optional<Instant> awaited_since(const State& state, const JobRecord& job,
                                     const ReplicaRecord& joiner);

// Takes the joiners that waited; the second function gives joiners their changed sources.
std::vector<Loaded> take_waiting(Transaction& tx, JobId job);
void refresh_sources(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
