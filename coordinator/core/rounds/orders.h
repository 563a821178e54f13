// What each replica trains in a round: how long it is, how many inner steps each takes and which
// sequences it draws. Sequences are leased to the replicas of stage 0 only, the routers.
#pragma once

#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Makes the record of the job's next round; nobody is told.
void open_round(Transaction& tx, JobId job);

// In-sync replicas that shall train [from, to) of this round: adds a lease to the contribution of
// each, gives the orders in the same order.
std::vector<OpenRound> assign_data(Transaction& tx, const RoundKey& key,
                                   const std::vector<ReplicaId>& replicas);
// What a replica with assigned data was told last. Replicas of one round may have different numbers
// of steps. Its leases are all that the replica is not known to have trained.
OpenRound order_of(const State& state, Instant now, const RoundRecord& round, ReplicaId replica);

// The leases of a replica for this round that it is not known to have trained, in the order in
// which it will train them. After a report in a job of one stage: the steps behind its boundary.
std::vector<DataLease> untrained_leases(const JobRecord& job,
                                        const ContributionRecord& contribution);

// Inner steps per second of those that contributed to the job's last committed round; 0: not known.
struct SpeedRange {
  double slowest = 0, fastest = 0;
};
SpeedRange speeds_of_last_round(const State& state, const JobRecord& job);

// How long an open round by time still lasts; nothing when it is over.
Duration time_left(const JobRecord& job, const RoundRecord& round, Instant now);

// The contribution of a replica to this round, made when there is none.
ContributionRecord& contribution_in(Transaction& tx, const RoundKey& key, ReplicaId replica);

}  // namespace shoal::coordinator
