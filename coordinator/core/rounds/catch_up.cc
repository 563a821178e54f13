#include "coordinator/core/rounds/catch_up.h"

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/replicas/evaluation.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/orders.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

void resend_order(Turn& turn, const RoundRecord& round, ReplicaId replica) {
  const OpenRound next = order_of(turn.state(), turn.now(), round, replica);
  if (round.aborts > 0) {
    turn.tell(replica, AbortRound{round.key, round.abort_reason, next});
  } else {
    turn.tell(replica, next);
  }
  if (turn.state().timers.at(round.key.job).close_sent) {
    turn.tell(replica, CloseRound{round.key});
  }
}

// The plan that counts on it.
void resend_plan(Turn& turn, const RoundRecord& round, const ContributionRecord& own) {
  const bool member = own.state == ContributionState::kMember;
  if (!member || reduce_of(round, own).given_up) return;
  turn.tell(own.replica, plan_of(turn.state(), round.key, reduce_index(own)));
}

// Of a replica that holds the committed round, or averages only.
void resend_current(Turn& turn, const ReplicaRecord& replica) {
  const RoundKey key = next_key(turn.state().jobs.at(replica.job));
  const ContributionRecord* own = turn.state().contributions.find({key, replica.id});
  if (own == nullptr) return;  // a joiner, or nothing to do yet
  const RoundRecord& round = turn.state().rounds.at(key);
  const bool trains =
      round.state == RoundState::kOpen && own->state == ContributionState::kTraining;
  if (trains) return resend_order(turn, round, replica.id);
  resend_plan(turn, round, *own);
}

// False: it can no longer follow.
bool resend_round(Turn& turn, const ReplicaRecord& replica) {
  const State& state = turn.state();
  const JobRecord& job = state.jobs.at(replica.job);
  if (replica.lineage != job.lineage) return false;
  const RoundKey committed{job.id, job.lineage, job.committed_round};
  if (!is_reducer(state, replica) && replica.held_round != job.committed_round) {
    const bool missed_one = replica.held_round + 1 == job.committed_round;
    if (!missed_one || !can_follow(state, committed, replica.id)) return false;
    turn.tell(replica.id, commit_for(state, turn.now(), commit_record(state, job), replica.id));
    return true;
  }
  if (state.rounds.contains(committed)) resend_slices(turn, committed, replica.id);
  resend_current(turn, replica);
  return true;
}

}  // namespace

void catch_up(Turn& turn, ReplicaId id) {
  const ReplicaRecord replica = turn.state().replicas.at(id);
  if (replica.state == ReplicaState::kAssigned || replica.state == ReplicaState::kLoading) {
    return send_assign(turn, replica);
  }
  resend_view(turn, replica);
  if (!resend_round(turn, replica)) {
    return fail_replica(turn, id, ReplicaFailure::kStale, "it missed more than one commit");
  }
  resend_checkpoint(turn, replica);
}

}  // namespace shoal::coordinator
