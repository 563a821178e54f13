// Replicas: one assignment of a job's stage to one device. They are created by placement, load
// their state, serve, and end; nothing ever brings an ended one back.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Where a new replica of this stage gets the committed state: from the seed while nothing is
// committed, else from a peer that holds the state, from a stored checkpoint of exactly that round,
// or from a copy (copies.h). None: no source has it now.
std::optional<StateSource> choose_source(const State& state, const JobRecord& job,
                                         StageIndex stage);

void assign_replica(Transaction& tx, JobId job, const Place& place, const StateSource& source);
// Sends a loading replica its Assign; also when its sources have changed.
void send_assign(Transaction& tx, const ReplicaRecord& replica);
void on_loaded(Transaction& tx, const Loaded& loaded);
// Tells a replica that holds the committed round to continue from there, and to give that state to
// joiners. Telling it twice changes nothing.
void tell_to_go_on(Transaction& tx, ReplicaId id);
// Sends a replica that holds the committed round its record again, signed with the newest key and
// with the digests that are known by now. Not to agents of protocol 4.
void renew_record(Transaction& tx, ReplicaId id);
void renew_records(Transaction& tx, JobId job, std::span<const ReplicaId> replicas);
// From now on the newest of these signs: members get their records again.
void on_record_keys_changed(Transaction& tx, RecordKeys keys);
// Lets joiners enter whose turn has come, and refreshes the sources that joiners may ask
// (joining.h).
void attend_joiners(Transaction& tx, JobId job);
// The trainer has ended or is given up: others take over its work, and its device rests for a while
// (device_failures.h).
void fail_replica(Transaction& tx, ReplicaId id, ReplicaFailure failure, const std::string& detail);
// Its agent reports a failure. When the trainer hangs, the replica becomes absent instead: it keeps
// what it holds, and may be back before the round is over.
void on_replica_failed(Transaction& tx, const ReplicaFailed& failed);
// Fails each of them that is present, as fail_replica() does. A replica becomes absent instead when
// it is unreachable, or when every other reachable replica of its stage is in doubt, too: the state
// of the stage would be lost with it.
void exclude_replicas(Transaction& tx, std::span<const ReplicaId> excluded, ReplicaFailure failure,
                      const std::string& detail);
// Does not touch its round and checkpoints: the caller ends those, too.
void release_replica(Transaction& tx, ReplicaId id, ReleaseReason reason);
// Releases it while its job continues: others take over its work. `left`: the state that its
// contribution to an open round gets, kLost or kMoved.
void let_go(Transaction& tx, ReplicaId id, ReleaseReason reason, ContributionState left);

// An absent replica takes part in nothing while its agent is unreachable, and none of its state is
// given up. A reducer cannot be absent, because it holds no state to return with.
bool can_be_absent(const State& state, ReplicaId id);
void become_absent(Transaction& tx, ReplicaId id, const std::string& why);
// Its agent is back and still runs it. Does nothing when it was not absent. The caller tells it
// what it missed (rounds/catch_up.h).
void come_back(Transaction& tx, ReplicaId id);

// Gives up replicas that do not load in time.
void check_load_limits(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
