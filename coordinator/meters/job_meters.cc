#include "coordinator/meters/job_meters.h"

#include <string>

namespace shoal::coordinator {
namespace {

prometheus::Labels label_of(JobId job) { return {{"job_id", to_string(job)}}; }

prometheus::Labels labels_of(JobId job, const char* name, std::string value) {
  return {{"job_id", to_string(job)}, {name, std::move(value)}};
}

}  // namespace

JobMeters::Families::Families(prometheus::Registry& registry)
    : rounds(counters(registry, "shoal_rounds_total",
                      "Rounds that ended since the coordinator started.")),
      contributions(
          counters(registry, "shoal_contributions_total",
                   "Contributions to committed rounds since the coordinator started, by outcome.")),
      rejected(
          counters(registry, "shoal_contributions_rejected_total",
                   "Contributions that were rejected since the coordinator started, by reason.")),
      skipped(counters(registry, "shoal_steps_skipped_total",
                       "Inner steps of committed rounds, since the coordinator started, that "
                       "changed nothing because the loss or the gradient was not finite.")),
      round_seconds(histograms(registry, "shoal_round_duration_seconds",
                               "Time from the opening of a round to its commit.")),
      reduce_seconds(histograms(registry, "shoal_reduce_duration_seconds",
                                "Time from the start of the last attempt of a reduce to the first "
                                "vote on it.")),
      join_seconds(histograms(registry, "shoal_join_duration_seconds",
                              "Time from the assignment of a replica until it serves.")),
      checkpoint_seconds(histograms(registry, "shoal_checkpoint_duration_seconds",
                                    "Time from the order for a checkpoint until it is stored.")),
      hop_seconds(
          histograms(registry, "shoal_pipeline_hop_round_trip_seconds",
                     "Round trips from a stage to the next one, as replicas report them.")) {}

JobMeters::Job::Job(JobId id, const Families& families)
    : committed(families.rounds, labels_of(id, "result", "committed")),
      aborted(families.rounds, labels_of(id, "result", "aborted")),
      skipped(families.skipped, label_of(id)),
      rounds(families.round_seconds, label_of(id), buckets_of_rounds()),
      reduces(families.reduce_seconds, label_of(id), buckets_of_rounds()),
      joins(families.join_seconds, label_of(id), buckets_of_rounds()),
      checkpoints(families.checkpoint_seconds, label_of(id), buckets_of_rounds()) {
  for (const auto& [state, word] : kEnumerators<ContributionState>) {
    if (state < ContributionState::kCommitted) continue;  // it can still change
    contributions.emplace(state, Count(families.contributions, labels_of(id, "state", word)));
  }
  for (const auto& [reason, word] : kEnumerators<RejectReason>) {
    if (reason < RejectReason::kNonFinite) continue;
    rejected.emplace(reason, Count(families.rejected, labels_of(id, "reason", word)));
  }
}

JobMeters::Job* JobMeters::find(JobId job) {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

void JobMeters::begin(JobId job) {
  const MutexLock lock(mutex_);
  jobs_.try_emplace(job, job, families_);
}

void JobMeters::end(JobId job, Instant at) {
  const MutexLock lock(mutex_);
  Job* entry = find(job);
  if (entry == nullptr || entry->ended) return;
  entry->ended = true;
  ended_.emplace_back(at, job);
  if (ended_.size() <= kEndedMax) return;
  jobs_.erase(ended_.front().second);
  ended_.pop_front();
}

void JobMeters::remove(JobId job) {
  const MutexLock lock(mutex_);
  jobs_.erase(job);
  std::erase_if(ended_, [&](const auto& entry) { return entry.second == job; });
}

void JobMeters::remove_ended(Instant before) {
  const MutexLock lock(mutex_);
  while (!ended_.empty() && ended_.front().first < before) {
    jobs_.erase(ended_.front().second);
    ended_.pop_front();
  }
}

void JobMeters::round_committed(JobId job, Duration took) {
  const MutexLock lock(mutex_);
  Job* entry = find(job);
  if (entry == nullptr) return;
  entry->committed->Increment();
  entry->rounds->Observe(took.seconds());
}

void JobMeters::round_aborted(JobId job) {
  const MutexLock lock(mutex_);
  if (Job* entry = find(job)) entry->aborted->Increment();
}

void JobMeters::reduced(JobId job, Duration took) {
  const MutexLock lock(mutex_);
  if (Job* entry = find(job)) entry->reduces->Observe(took.seconds());
}

void JobMeters::contributed(JobId job, ContributionState state, RejectReason reason) {
  const MutexLock lock(mutex_);
  Job* entry = find(job);
  if (entry == nullptr) return;
  const auto outcome = entry->contributions.find(state);
  if (outcome != entry->contributions.end()) outcome->second->Increment();
  if (state != ContributionState::kRejected) return;
  const auto why = entry->rejected.find(reason);
  if (why != entry->rejected.end()) why->second->Increment();
}

void JobMeters::skipped(JobId job, Steps steps) {
  const MutexLock lock(mutex_);
  if (Job* entry = find(job)) entry->skipped->Increment(static_cast<double>(steps.count()));
}

void JobMeters::joined(JobId job, Duration took) {
  const MutexLock lock(mutex_);
  if (Job* entry = find(job)) entry->joins->Observe(took.seconds());
}

void JobMeters::stored_checkpoint(JobId job, Duration took) {
  const MutexLock lock(mutex_);
  if (Job* entry = find(job)) entry->checkpoints->Observe(took.seconds());
}

void JobMeters::hop(JobId job, StageIndex from, Duration round_trip) {
  const MutexLock lock(mutex_);
  Job* entry = find(job);
  if (entry == nullptr) return;
  const auto [times, added] =
      entry->hops.try_emplace(from, families_.hop_seconds,
                              labels_of(job, "stage", std::to_string(from)), buckets_of_hops());
  times->second->Observe(round_trip.seconds());
}

}  // namespace shoal::coordinator
