#include "coordinator/core/rounds/catch_up.h"

#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/replicas/evaluation.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/orders.h"
#include "coordinator/core/rounds/pipeline_view.h"
#include "coordinator/core/state/commit_proof.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

void resend_order(Transaction& tx, const RoundRecord& round, ReplicaId replica) {
  const OpenRound next = order_of(tx.state(), tx.now(), round, replica);
  if (round.aborts > 0) {
    tx.tell(replica, AbortRound{round.key, round.abort_reason, next});
  } else {
    tx.tell(replica, next);
  }
  if (tx.state().timers.at(round.key.job).close_sent) {
    tx.tell(replica, CloseRound{round.key});
  }
}

// The plan that counts on it.
void resend_plan(Transaction& tx, const RoundRecord& round, const ContributionRecord& own) {
  const bool member = own.state == ContributionState::kMember;
  if (!member || reduce_of(round, own).given_up) return;
  tx.tell(own.replica, plan_of(tx.state(), round.key, reduce_index(own)));
}

// Repeats the current orders to a replica that holds the committed round, or only averages.
void resend_current(Transaction& tx, const ReplicaRecord& replica) {
  const RoundKey key = next_key(tx.state().jobs.at(replica.job));
  const ContributionRecord* own = tx.state().contributions.find({key, replica.id});
  if (own == nullptr) return;  // a joiner, or nothing to do yet
  const RoundRecord& round = tx.state().rounds.at(key);
  const bool trains =
      round.state == RoundState::kOpen && own->state == ContributionState::kTraining;
  if (trains) return resend_order(tx, round, replica.id);
  resend_plan(tx, round, *own);
}

// False: it can no longer follow.
bool resend_round(Transaction& tx, const ReplicaRecord& replica) {
  const State& state = tx.state();
  const JobRecord& job = state.jobs.at(replica.job);
  if (replica.epoch != job.epoch) return false;
  const RoundKey committed{job.id, job.epoch, job.committed_round};
  if (!is_reducer(state, replica) && replica.held_round != job.committed_round) {
    const bool missed_one = replica.held_round + 1 == job.committed_round;
    if (!missed_one || !can_follow(state, committed, replica.id)) return false;
    tx.tell(replica.id,
            commit_for(state, tx.now(), signed_record(state, job, replica.id), replica.id));
    return true;
  }
  if (state.rounds.contains(committed)) resend_slices(tx, committed, replica.id);
  resend_current(tx, replica);
  return true;
}

}  // namespace

void catch_up(Transaction& tx, ReplicaId id) {
  const ReplicaRecord replica = tx.state().replicas.at(id);
  if (replica.state == ReplicaState::kAssigned || replica.state == ReplicaState::kLoading) {
    return send_assign(tx, replica);
  }
  resend_view(tx, replica);
  if (!resend_round(tx, replica)) {
    return fail_replica(tx, id, ReplicaFailure::kStale, "it missed more than one commit");
  }
  resend_checkpoint(tx, replica);
}

}  // namespace shoal::coordinator
