// What the records say of a job's rounds: look-ups over the state that the rules of replicas,
// checkpoints and rounds share. Nothing here changes anything.
//
// A round has one reduce per stage, or, in a job that averages in groups, one per group
// (rounds/round_groups.h). Members of a reduce are those of its newest attempt.
#pragma once

#include <vector>

#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// The round a job works on; whether or not it was opened.
RoundKey next_key(const JobRecord& job);
bool is_trained(const JobRecord& job);  // all inner steps are committed
bool averages_in_groups(const JobRecord& job);

// The fragment that this round averages (outer_opt/core/step/fragments.h).
std::int32_t fragment_of_round(const JobRecord& job, const RoundRecord& round);
// A member of an asynchronous round that had not reported when it was frozen: it trains on, and its
// leases count with the round in which it reports.
bool is_late(const JobRecord& job, const ContributionRecord& contribution);
// Whether it was told to train its round; joiners and reducers were not, and who left does not.
bool has_assigned_data(const ContributionRecord& contribution);
// Whether the course of this round is worth events: of ddp, whose rounds are single inner steps,
// only those that are evaluated and the last one. Anything unusual always is.
bool has_events(const JobRecord& job, const RoundRecord& round);

// Euclidean norm of what a member sends, as it says.
double sent_norm(const RoundReport& report);

ReduceIndex reduce_count(const State& state, const RoundKey& key);
// The replicas whose values a reduce averages.
StageIndex stage_of_reduce(const JobRecord& job, ReduceIndex reduce);
// In the order of the plan; dead ones included.
std::vector<ReplicaId> members_of(const State& state, const RoundKey& key, ReduceIndex reduce);
// The plan of the average, by the parts that members own; the address of a dead one is empty.
ReducePlan averaging_plan_of(const State& state, const RoundKey& key, ReduceIndex reduce);
// The plan as its members were told: that, or an audit of what came of it.
ReducePlan plan_of(const State& state, const RoundKey& key, ReduceIndex reduce);
// How long one attempt may take, by the size of what is averaged.
Duration attempt_time_limit(const State& state, const RoundRecord& round, ReduceIndex reduce);

// sync.outer_state = sharded: what every member of the newest committed round, dead ones included,
// kept of the stage's outer momentum after it. A round that was adopted from its holders has no
// members here; for it, what the holders reported.
std::vector<MomentumHolder> momentum_after(const State& state, const JobRecord& job,
                                           StageIndex stage);

// What the newest commit made of the job, for its members to keep. What the round that follows has
// leased is not trained at this cut.
CommitRecord commit_record(const State& state, const JobRecord& job);

}  // namespace shoal::coordinator
