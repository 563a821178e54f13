// The outer round of a job: open -> sealed -> reducing -> voting -> committed, with new attempts
// and aborts. Decisions are in quorum.h and attempt.h; here they are carried out. Tensors never
// come by: the coordinator sees reports, votes and digests.
//
// One round serves all stages of the job: it is sealed for all at once; each stage (each group, of
// a job that averages in groups: round_groups.h) has its own reduce with members, attempts and time
// limits of its own; it commits when every stage agrees, and an abort of one aborts it for all.
// Sequences are leased to the replicas of stage 0 only, the routers; tokens and training loss come
// from their reports, and they share the evaluation.
//
//   rounds.cc    open, report, seal
//   attempts.cc  plan, vote, judge, next attempt, abort
//   commits.cc   commit, outer step taken, evaluation, re-sending
#pragma once

#include "coordinator/core/turn.h"

namespace shoal::coordinator {

// The round a job works on.
RoundKey next_key(const JobRecord& job);

// Opens the next round with every holder.
void open_round(Turn& turn, JobId job);
// Moves the job's round as far as its reports, votes and the time allow.
void check_round(Turn& turn, JobId job);

void on_report(Turn& turn, ReplicaId replica, const RoundReport& report);
void on_vote(Turn& turn, ReplicaId replica, const Vote& vote);
void on_reduce_failed(Turn& turn, ReplicaId replica, const ReduceFailed& failed);
void on_applied(Turn& turn, ReplicaId replica, const Applied& applied);
void on_evaluated(Turn& turn, ReplicaId replica, const Evaluated& evaluated);

// A replica has just left memory; its leases and its share of the evaluation go to others. `left`:
// what its contribution to an open round becomes, kLost or kMoved.
void leave_round(Turn& turn, const ReplicaRecord& ended, ContributionState left);

// What this serving replica must hear again; false when it can no longer follow.
bool resend_round(Turn& turn, const ReplicaRecord& replica);

// The job ends or rolls back: its unfinished round is over.
void end_round(Turn& turn, JobId job);

bool evaluation_complete(const RoundRecord& round, const State& state);

// ---- between the three files

// The fragment that this round averages (outer_opt/core/step/fragments.h).
std::int32_t fragment_of_round(const JobRecord& job, const RoundRecord& round);
// The contribution of a replica to this round, made when there is none.
ContributionRecord& contribution_in(Turn& turn, const RoundKey& key, ReplicaId replica);
// Holders that shall train [from, to) of this round: adds a lease to the contribution of each,
// gives the orders in the same order.
std::vector<OpenRound> enlist(Turn& turn, const RoundKey& key,
                              const std::vector<ReplicaId>& replicas);
// Whether the course of this round is worth events: of ddp, whose rounds are single inner steps,
// only those that are evaluated and the last one. Anything unusual always is.
bool has_events(const JobRecord& job, const RoundRecord& round);
// A member of an asynchronous round that had not reported when it was sealed: it trains on, and its
// leases count with the round in which it reports.
bool is_late(const JobRecord& job, const ContributionRecord& contribution);
// What an enlisted replica was told last. Replicas of one round may have different numbers of
// steps.
OpenRound order_of(const State& state, const RoundRecord& round, ReplicaId replica);
void seal(Turn& turn, const RoundKey& key);
void start_attempt(Turn& turn, const RoundKey& key, ReduceIndex reduce,
                   const std::vector<ReplicaId>& members);
void judge(Turn& turn, const RoundKey& key);
void abort_round(Turn& turn, const RoundKey& key, AbortReason reason);
// One average per reduce; zero where a group gave up.
void commit(Turn& turn, const RoundKey& key, const std::vector<Digest>& averages);
void check_applied(Turn& turn, JobId job);
ReducePlan plan_of(const State& state, const RoundKey& key, ReduceIndex reduce);
// Members of the running (or committed) attempt of one reduce, in the order of the plan; dead ones
// included.
std::vector<ReplicaId> members_of(const State& state, const RoundKey& key, ReduceIndex reduce);
// Whether one of these members has a pseudo-gradient that counts.
bool any_usable(const State& state, const RoundKey& key, const std::vector<ReplicaId>& members);
ReduceIndex reduce_count(const State& state, const RoundKey& key);

}  // namespace shoal::coordinator
