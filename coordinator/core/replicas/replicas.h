// Replicas: one assignment of a job's stage to one device. They are created by placement, load
// their state, serve, and end; nothing ever brings an ended one back.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Where a new replica of this stage gets the committed state from: a peer that holds it, the seed
// while nothing was committed, a stored checkpoint of exactly that round, a copy of it (copies.h).
// None: nobody can give it now.
std::optional<StateSource> choose_source(const State& state, const JobRecord& job,
                                         StageIndex stage);

void assign_replica(Transaction& tx, JobId job, const Place& place, const StateSource& source);
// What a replica that loads is told.
void send_assign(Transaction& tx, const ReplicaRecord& replica);
void on_loaded(Transaction& tx, const Loaded& loaded);
// The job counts on what it holds, which is the committed round: it continues from there, and gives
// that state to joiners. Said again it changes nothing.
void tell_to_go_on(Transaction& tx, ReplicaId id);
// Joiners that waited for their turn to enter, and whom they may ask (joining.h).
void attend_joiners(Transaction& tx, JobId job);
// The trainer ended, or is given up: others take over what it had, and its device rests a while.
void fail_replica(Transaction& tx, ReplicaId id, ReplicaFailure failure, const std::string& detail);
// What its agent says. A trainer that hangs makes it absent: it keeps what it holds, and may be
// back before the round is over.
void on_replica_failed(Transaction& tx, const ReplicaFailed& failed);
// As fail_replica() of each that is present, judged together: those that nobody above doubt can
// stand in for become absent instead.
void exclude_replicas(Transaction& tx, std::span<const ReplicaId> excluded, ReplicaFailure failure,
                      const std::string& detail);
// Its round and checkpoints are left to the caller, who ends them with it.
void release_replica(Transaction& tx, ReplicaId id, ReleaseReason reason);
// Released while its job continues: others take over what it had. `left`: what its contribution to
// an open round becomes, kLost or kMoved.
void let_go(Transaction& tx, ReplicaId id, ReleaseReason reason, ContributionState left);

// Its agent is out of reach: it takes part in nothing, and nothing of it is given up. A reducer has
// nothing to come back with.
bool can_be_absent(const State& state, ReplicaId id);
void become_absent(Transaction& tx, ReplicaId id, const std::string& why);
// Its agent is back and still runs it; nothing when it was not absent. The caller tells it what it
// missed (rounds/catch_up.h).
void come_back(Transaction& tx, ReplicaId id);

// A replica that does not load in time is given up.
void check_load_limits(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
