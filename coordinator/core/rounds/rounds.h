// The outer round of a job: open -> frozen -> reducing -> voting -> committed, with new attempts
// and aborts. Decisions are in quorum.h and attempt.h; here they are carried out. Tensors never
// come by: the coordinator sees reports, votes and digests.
//
// One round serves all stages of the job: it is frozen for all at once; each stage (each group, of
// a job that averages in groups: round_groups.h) has its own reduce with members, attempts and time
// limits of its own; it commits when every stage agrees, and an abort of one aborts it for all.
// Tokens and training loss come from the routers' reports, and routers share the evaluation.
//
//   orders      who trains what
//   commits     the commit and the outer step; opens the next round
//   attempts    plan, vote, judge, next attempt, abort
//   rounds      report, quorum, freeze
//   catch_up    what is sent again
//
// Each sees those above it only.
#pragma once

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Moves the job's round as far as its reports, votes and the time allow; opens it when there is
// none.
void check_round(Transaction& tx, JobId job);

void on_report(Transaction& tx, ReplicaId replica, const RoundReport& report);

// The job ends, rolls back or gets another cut: its unfinished round is over. What that has leased
// returns to the ledger.
void end_round(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
