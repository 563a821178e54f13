#include "coordinator/service/durable_counters.h"

namespace shoal::coordinator {
namespace {

Bytes& sum_of(Counts& counts, bool stored) {
  return stored ? counts.checkpoints_stored : counts.checkpoints_pending;
}

}  // namespace

DurableCounters::DurableCounters(const Snapshot& snapshot) {
  for (const JobRecord& job : snapshot.jobs) {
    if (is_terminal(job.phase)) continue;
    jobs_[job.id].counted = {job.id, job.epoch, job.committed_round};
    counts_.rounds[job.id] = {};
  }
  for (const ContributionRecord& contribution : snapshot.contributions) {
    note_contribution(contribution);
  }
  for (const CheckpointRecord& checkpoint : snapshot.checkpoints) note_checkpoint(checkpoint);
}

void DurableCounters::count(const std::vector<Record>& records) {
  const MutexLock lock(mutex_);
  for (const Record& record : records) note(record);
  for (const RoundKey& key : committed_) close(key);
  committed_.clear();
}

Counts DurableCounters::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

void DurableCounters::note(const Record& record) {
  if (const auto* event = std::get_if<EventRecord>(&record)) note_event(*event);
  if (const auto* job = std::get_if<JobRecord>(&record)) note_job(*job);
  if (const auto* part = std::get_if<ContributionRecord>(&record)) note_contribution(*part);
  if (const auto* one = std::get_if<CheckpointRecord>(&record)) note_checkpoint(*one);
  const auto* round = std::get_if<RoundRecord>(&record);
  if (round != nullptr && round->state == RoundState::kCommitted) committed_.insert(round->key);
}

void DurableCounters::note_event(const EventRecord& event) {
  ++counts_.events[static_cast<std::size_t>(event.severity)];
  const auto incident = counts_.incidents.find(event.kind);
  if (incident != counts_.incidents.end()) ++incident->second;
  if (event.kind == event_kind::kRoundAborted) ++counts_.rounds[event.job].aborted;
}

// A job that has ended commits no more rounds; of very many such jobs the oldest are forgotten.
void DurableCounters::note_job(const JobRecord& record) {
  counts_.rounds[record.id];
  Job& job = jobs_[record.id];
  if (!is_terminal(record.phase) || job.ended) return;
  job.ended = true;
  ended_.push_back(record.id);
  if (ended_.size() <= kEndedJobsMax) return;
  jobs_.erase(ended_.front());
  counts_.rounds.erase(ended_.front());
  ended_.pop_front();
}

void DurableCounters::note_contribution(const ContributionRecord& contribution) {
  const auto job = jobs_.find(contribution.key.job);
  if (job == jobs_.end() || contribution.key <= job->second.counted) return;
  job->second.open[{contribution.key, contribution.replica}] = {
      contribution.state, contribution.reject_reason, contribution.report.skipped};
}

void DurableCounters::note_checkpoint(const CheckpointRecord& checkpoint) {
  const auto before = checkpoints_.find(checkpoint.id);
  if (before != checkpoints_.end()) {
    sum_of(counts_, before->second.stored) -= before->second.size;
    checkpoints_.erase(before);
  }
  if (checkpoint.state > CheckpointState::kStored) return;
  const Kept kept{checkpoint.state == CheckpointState::kStored, total_size(checkpoint)};
  checkpoints_.emplace(checkpoint.id, kept);
  sum_of(counts_, kept.stored) += kept.size;
}

// When a committed round is written again, nothing is left to count.
void DurableCounters::close(const RoundKey& key) {
  const auto found = jobs_.find(key.job);
  if (found == jobs_.end() || key.round == 0 || key <= found->second.counted) return;
  Job& job = found->second;
  RoundCounts& counts = counts_.rounds[key.job];
  ++counts.committed;
  for (const auto& [part, contributed] : job.open) {
    if (part.first != key) continue;
    ++counts.contributions[static_cast<std::size_t>(contributed.state)];
    counts.skipped += contributed.skipped;
    if (contributed.state != ContributionState::kRejected) continue;
    ++counts.rejected[static_cast<std::size_t>(contributed.reason)];
  }
  std::erase_if(job.open, [&](const auto& one) { return one.first.first <= key; });
  job.counted = key;
}

}  // namespace shoal::coordinator
