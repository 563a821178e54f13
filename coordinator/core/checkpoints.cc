#include "coordinator/core/checkpoints.h"

#include <tuple>

#include "coordinator/core/data_ledger.h"
#include "coordinator/core/event_kinds.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/rounds.h"

namespace shoal::coordinator {
namespace {

bool is_pending(const CheckpointRecord& checkpoint) {
  return checkpoint.state == CheckpointState::kWriting ||
         checkpoint.state == CheckpointState::kUploading;
}

// What the round after this cut has leased is not trained at the cut.
void give_back_open_leases(const State& state, const JobRecord& job, DataLedger ledger) {
  const RoundKey open{job.id, job.lineage, job.committed_round + 1};
  for (const ReplicaId replica : round_replicas(state, open)) {
    for (const auto& lease : state.contributions.at({open, replica}).leases)
      give_back(ledger, lease);
  }
}

void delete_superseded(Turn& turn, JobId job) {
  const std::int64_t keep = turn.state().jobs.at(job).spec.checkpoint.keep;
  std::vector<CheckpointId> stored;  // oldest first: ids grow
  for (const auto& [id, checkpoint] : turn.state().checkpoints) {
    const bool counts = checkpoint.key.job == job && checkpoint.state == CheckpointState::kStored;
    if (counts && !checkpoint.final) stored.push_back(id);
  }
  for (std::size_t i = 0; static_cast<std::int64_t>(stored.size() - i) > keep; ++i) {
    turn.checkpoint(stored[i]).state = CheckpointState::kDeleted;
    turn.event(Severity::kInfo, event_kind::kCheckpointDeleted, {.job = job},
               to_string(stored[i]) + " deleted: checkpoint.keep is " + std::to_string(keep));
    turn.drop_checkpoint(stored[i]);
    turn.delete_files(stored[i]);
  }
}

}  // namespace

const CheckpointRecord* checkpoint_of_committed(const State& state, const JobRecord& job) {
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job == job.id && checkpoint.state == CheckpointState::kStored &&
        checkpoint.key.round == job.committed_round && checkpoint.anchor == job.anchor) {
      return &checkpoint;
    }
  }
  return nullptr;
}

const CheckpointRecord* newest_stored(const State& state, JobId job) {
  const CheckpointRecord* newest = nullptr;
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job != job || checkpoint.state != CheckpointState::kStored) continue;
    if (newest == nullptr || newest->key < checkpoint.key) newest = &checkpoint;
  }
  return newest;
}

bool final_checkpoint_stored(const State& state, const JobRecord& job) {
  const CheckpointRecord* checkpoint = checkpoint_of_committed(state, job);
  return checkpoint != nullptr && checkpoint->final;
}

bool final_checkpoint_pending(const State& state, const JobRecord& job) {
  for (const auto& [id, checkpoint] : state.checkpoints) {
    if (checkpoint.key.job == job.id && checkpoint.final && is_pending(checkpoint)) return true;
  }
  return false;
}

void request_checkpoint(Turn& turn, JobId job_id, bool final) {
  const JobRecord& job = turn.state().jobs.at(job_id);
  const auto able = holders(turn.state(), job);
  if (able.empty()) return;
  CheckpointRecord record;
  record.id = CheckpointId(turn.counters().next_checkpoint++);
  record.key = {job.id, job.lineage, job.committed_round};
  record.final = final;
  record.writer = able.front();
  record.step = job.committed_step;
  record.tokens = job.committed_tokens;
  record.anchor = job.anchor;
  record.momentum = job.momentum;
  record.next_sequence = job.next_sequence;
  record.returned = job.returned;
  give_back_open_leases(turn.state(), job, {record.next_sequence, record.returned});
  record.created_at = turn.now();
  const CheckpointRecord& added = turn.add(std::move(record));
  turn.send(turn.state().replicas.at(added.writer).agent,
            ToReplica<WriteCheckpoint>{added.writer, {added.id, added.key}});
}

void on_checkpoint_written(Turn& turn, const CheckpointWritten& written) {
  const CheckpointRecord* known = turn.state().checkpoints.find(written.checkpoint);
  if (known == nullptr || known->state != CheckpointState::kWriting) return;
  CheckpointRecord& checkpoint = turn.checkpoint(written.checkpoint);
  checkpoint.state = CheckpointState::kUploading;
  checkpoint.files = written.files;
}

void on_checkpoint_failed(Turn& turn, CheckpointId id, const std::string& detail) {
  const CheckpointRecord* known = turn.state().checkpoints.find(id);
  if (known == nullptr || !is_pending(*known)) return;
  CheckpointRecord& checkpoint = turn.checkpoint(id);
  checkpoint.state = CheckpointState::kFailed;
  checkpoint.detail = detail;
  turn.event(
      Severity::kWarning, event_kind::kCheckpointFailed,
      {.job = checkpoint.key.job, .replica = checkpoint.writer, .round = checkpoint.key.round},
      to_string(id) + " was not stored: " + detail);
  ++turn.job(checkpoint.key.job).failures_in_row;
  if (const ReplicaRecord* writer = turn.state().replicas.find(checkpoint.writer)) {
    turn.send(writer->agent, ForgetCheckpoint{id});
  }
  turn.drop_checkpoint(id);
}

void on_checkpoint_uploaded(Turn& turn, CheckpointId id) {
  const CheckpointRecord* known = turn.state().checkpoints.find(id);
  if (known == nullptr) return turn.delete_files(id);  // nobody wants it any more
  if (!is_pending(*known)) return;
  CheckpointRecord& checkpoint = turn.checkpoint(id);
  checkpoint.state = CheckpointState::kStored;
  const JobId job = checkpoint.key.job;
  Bytes size;
  for (const auto& file : checkpoint.files) size += file.size;
  turn.event(Severity::kInfo, event_kind::kCheckpointStored,
             {.job = job, .replica = checkpoint.writer, .round = checkpoint.key.round},
             to_string(id) + " of round " + std::to_string(checkpoint.key.round) + " stored, " +
                 std::to_string(size.n) + " bytes");
  if (const ReplicaRecord* writer = turn.state().replicas.find(checkpoint.writer)) {
    turn.send(writer->agent, ForgetCheckpoint{id});
  }
  delete_superseded(turn, job);
}

void leave_checkpoints(Turn& turn, const ReplicaRecord& ended) {
  std::vector<CheckpointId> abandoned;
  for (const auto& [id, checkpoint] : turn.state().checkpoints) {
    if (checkpoint.writer == ended.id && is_pending(checkpoint)) abandoned.push_back(id);
  }
  for (const CheckpointId id : abandoned) {
    on_checkpoint_failed(turn, id, "its writer " + to_string(ended.id) + " ended");
  }
}

void resend_checkpoint(Turn& turn, const ReplicaRecord& replica) {
  for (const auto& [id, checkpoint] : turn.state().checkpoints) {
    if (checkpoint.writer != replica.id || !is_pending(checkpoint)) continue;
    turn.send(replica.agent, ToReplica<WriteCheckpoint>{replica.id, {id, checkpoint.key}});
  }
}

void check_checkpoint_limits(Turn& turn, JobId job) {
  std::vector<CheckpointId> late;
  for (const auto& [id, checkpoint] : turn.state().checkpoints) {
    if (checkpoint.key.job != job || !is_pending(checkpoint)) continue;
    const Instant limit = checkpoint.created_at + turn.options().checkpoint_limit;
    if (turn.now() < limit) {
      look_again(turn, job, limit);
    } else {
      late.push_back(id);
    }
  }
  for (const CheckpointId id : late) on_checkpoint_failed(turn, id, "it took too long");
}

}  // namespace shoal::coordinator
