// The lines between agents: what trainers measure is kept, one record per ordered pair, and decides
// parts, ring order, topology and frame size of every reduce. The coordinator also says who
// measures whom next: each replica a few of its stage, the next ones in their order, so that all
// pairs come up in time and no line is flooded; who is alone in its stage, a few of the next stage.
#pragma once

#include <vector>

#include "coordinator/core/state/state.h"
#include "coordinator/core/state/transaction.h"
#include "outer_opt/core/round/topology.h"

namespace shoal::coordinator {

// A measurement that is older is repeated while a job needs the line.
inline constexpr Duration kMeasureAgain = seconds(600);

// Keeps what the trainer of `replica` says of its lines. What hardly changed is not written again.
void note_links(Transaction& tx, ReplicaId replica, const std::vector<LinkEstimate>& links);

// In the order of `members`. The speed of a member's line is the best that was measured from it or
// to it, the lower of the two; to whom nobody that tried found a way is not reachable.
std::vector<outer_opt::LinkedMember> links_of(const State& state, Instant now,
                                              const std::vector<ReplicaId>& members);

// Whether what goes between the stages of this job's pipeline is worth entropy coding: the slowest
// line known of its replicas decides, as in pays_entropy_coding().
bool codes_between_stages(const State& state, Instant now, JobId job);

// kMeasuresMax at most; none with `ddp`, whose rounds are too short, and `none`.
std::vector<PeerAddress> peers_to_measure(const State& state, Instant now, ReplicaId replica);

}  // namespace shoal::coordinator
