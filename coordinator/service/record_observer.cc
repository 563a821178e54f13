#include "coordinator/service/record_observer.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

Bytes& sum_of(CheckpointSpace& space, bool stored) { return stored ? space.stored : space.pending; }

}  // namespace

RecordObserver::RecordObserver(const Snapshot& snapshot, std::shared_ptr<Meters> meters)
    : meters_(std::move(meters)) {
  const MutexLock lock(mutex_);
  for (const JobRecord& job : snapshot.jobs) {
    if (is_terminal(job.phase)) continue;
    jobs_[job.id].counted = {job.id, job.epoch, job.committed_round};
    meters_->jobs.begin(job.id);
  }
  for (const ContributionRecord& contribution : snapshot.contributions) note(contribution);
  for (const CheckpointRecord& checkpoint : snapshot.checkpoints) note(checkpoint);
  for (const ReplicaRecord& replica : snapshot.replicas) {
    const bool loads = replica.state == ReplicaState::kLoading && replica.held_round < 0;
    if (loads || replica.state == ReplicaState::kAssigned) joining_.insert(replica.id);
  }
}

void RecordObserver::observe(Instant now, const std::vector<Record>& records) {
  const MutexLock lock(mutex_);
  Batch batch;
  for (const Record& record : records) {
    if (const auto* event = std::get_if<EventRecord>(&record)) note(*event);
    if (const auto* job = std::get_if<JobRecord>(&record)) note(*job, batch);
    if (const auto* round = std::get_if<RoundRecord>(&record)) note(now, *round, batch);
    if (const auto* part = std::get_if<ContributionRecord>(&record)) note(*part);
    if (const auto* replica = std::get_if<ReplicaRecord>(&record)) note(*replica);
    if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record)) note(*checkpoint);
  }
  for (const auto& [key, round] : batch.committed) close(*round);
  for (const auto& [job, at] : batch.ended) {
    jobs_.erase(job);
    meters_->jobs.end(job, at);
  }
}

CheckpointSpace RecordObserver::checkpoint_space() const {
  const MutexLock lock(mutex_);
  return space_;
}

void RecordObserver::note(const EventRecord& event) {
  meters_->events.happened(event);
  if (event.kind == event_kind::kRoundAborted) meters_->jobs.round_aborted(event.job);
}

// A job that has ended commits no more rounds.
void RecordObserver::note(const JobRecord& record, Batch& batch) {
  if (record.removed_at.ns != 0) meters_->jobs.remove(record.id);
  if (is_terminal(record.phase)) {
    if (jobs_.contains(record.id)) batch.ended[record.id] = record.updated_at;
    return;
  }
  jobs_.try_emplace(record.id);
  meters_->jobs.begin(record.id);
}

// An attempt that failed goes back to another state, and its votes do not count.
void RecordObserver::note(Instant now, const RoundRecord& round, Batch& batch) {
  if (round.state == RoundState::kCommitted) batch.committed[round.key] = &round;
  const auto job = jobs_.find(round.key.job);
  if (job == jobs_.end() || round.state == RoundState::kCommitted) return;
  if (round.state == RoundState::kVoting) {
    job->second.voting_at.try_emplace(round.key, now);
  } else {
    job->second.voting_at.erase(round.key);
  }
}

void RecordObserver::note(const ContributionRecord& contribution) {
  const auto job = jobs_.find(contribution.key.job);
  if (job == jobs_.end() || contribution.key <= job->second.counted) return;
  job->second.open[{contribution.key, contribution.replica}] = {
      contribution.state, contribution.reject_reason, contribution.report.skipped};
}

// A replica that was absent loads again without being assigned again: that is no join.
void RecordObserver::note(const ReplicaRecord& replica) {
  if (replica.state == ReplicaState::kAssigned) joining_.insert(replica.id);
  if (is_terminal(replica.state)) joining_.erase(replica.id);
  if (replica.state != ReplicaState::kServing || joining_.erase(replica.id) == 0) return;
  meters_->jobs.joined(replica.job, replica.updated_at - replica.created_at);
}

void RecordObserver::note(const CheckpointRecord& checkpoint) {
  const bool stored = checkpoint.state == CheckpointState::kStored;
  const auto before = checkpoints_.find(checkpoint.id);
  if (before != checkpoints_.end()) {
    if (stored && !before->second.stored) {
      meters_->jobs.stored_checkpoint(checkpoint.key.job,
                                      checkpoint.updated_at - checkpoint.created_at);
    }
    sum_of(space_, before->second.stored) -= before->second.size;
    checkpoints_.erase(before);
  }
  if (checkpoint.state > CheckpointState::kStored) return;
  const Kept kept{stored, total_size(checkpoint)};
  checkpoints_.emplace(checkpoint.id, kept);
  sum_of(space_, kept.stored) += kept.size;
}

// When a committed round is written again, nothing is left to count.
void RecordObserver::close(const RoundRecord& round) {
  const RoundKey& key = round.key;
  const auto found = jobs_.find(key.job);
  if (found == jobs_.end() || key.round == 0 || key <= found->second.counted) return;
  Job& job = found->second;
  meters_->jobs.round_committed(key.job, round.committed_at - round.opened_at);
  const auto voting = job.voting_at.find(key);
  count_reduces(round, voting == job.voting_at.end() ? round.committed_at : voting->second);
  for (const auto& [part, contributed] : job.open) {
    if (part.first != key) continue;
    meters_->jobs.contributed(key.job, contributed.state, contributed.reason);
    meters_->jobs.skipped(key.job, contributed.skipped);
  }
  std::erase_if(job.open, [&](const auto& one) { return one.first.first <= key; });
  std::erase_if(job.voting_at, [&](const auto& one) { return one.first <= key; });
  job.counted = key;
}

// Votes are seen when they are durable, which may be after the time of the commit.
void RecordObserver::count_reduces(const RoundRecord& round, Instant voting_at) {
  const Instant end = std::min(voting_at, round.committed_at);
  for (const Reduce& reduce : round.reduces) {
    if (reduce.given_up || reduce.attempt_started_at == Instant()) continue;
    const Duration took = std::max(end - reduce.attempt_started_at, Duration());
    meters_->jobs.reduced(round.key.job, took);
  }
}

}  // namespace shoal::coordinator
