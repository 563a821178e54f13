// Rounds as the store tells of them: commits, commits told again, rollbacks, restarts.
#include "coordinator/service/durable_counters.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr JobId kJob{7};

JobRecord job(std::int64_t epoch, RoundNumber committed, JobPhase phase = JobPhase::kTraining) {
  JobRecord record;
  record.id = kJob, record.epoch = epoch, record.committed_round = committed;
  record.phase = phase;
  return record;
}

RoundRecord round(std::int64_t epoch, RoundNumber number, RoundState state) {
  RoundRecord record;
  record.key = {kJob, epoch, number}, record.state = state;
  return record;
}

ContributionRecord part(const RoundKey& key, std::uint64_t replica, ContributionState state,
                        RejectReason reason = RejectReason::kNone) {
  ContributionRecord record;
  record.key = key, record.replica = ReplicaId(replica);
  record.state = state, record.reject_reason = reason;
  return record;
}

std::int64_t of(const DurableCounters& counters, ContributionState state) {
  return counters.counts().rounds.at(kJob).contributions[static_cast<std::size_t>(state)];
}

std::int64_t committed(const DurableCounters& counters) {
  return counters.counts().rounds.at(kJob).committed;
}

TEST(DurableCounters, ACommittedRoundCountsOnceWithItsContributions) {
  DurableCounters counters{Snapshot{}};
  const RoundKey key{kJob, 0, 1};
  counters.count({job(0, 0), round(0, 1, RoundState::kOpen),
                  part(key, 1, ContributionState::kTraining),
                  part(key, 2, ContributionState::kTraining)});
  EXPECT_EQ(committed(counters), 0);
  counters.count({round(0, 1, RoundState::kCommitted), part(key, 1, ContributionState::kCommitted),
                  part(key, 2, ContributionState::kRejected, RejectReason::kOutlier)});
  EXPECT_EQ(committed(counters), 1);
  EXPECT_EQ(of(counters, ContributionState::kCommitted), 1);
  EXPECT_EQ(of(counters, ContributionState::kRejected), 1);
  const auto reason = static_cast<std::size_t>(RejectReason::kOutlier);
  EXPECT_EQ(counters.counts().rounds.at(kJob).rejected[reason], 1);

  // Its evaluation writes it again.
  counters.count(
      {round(0, 1, RoundState::kCommitted), part(key, 1, ContributionState::kCommitted)});
  EXPECT_EQ(committed(counters), 1);
  EXPECT_EQ(of(counters, ContributionState::kCommitted), 1);
}

TEST(DurableCounters, SkippedStepsCountWithTheirRound) {
  DurableCounters counters{Snapshot{}};
  const RoundKey key{kJob, 0, 1};
  ContributionRecord skipping = part(key, 1, ContributionState::kCommitted);
  skipping.report.skipped = Steps(3);
  counters.count({job(0, 0), round(0, 1, RoundState::kOpen), skipping});
  EXPECT_EQ(counters.counts().rounds.at(kJob).skipped, Steps(0));
  counters.count({round(0, 1, RoundState::kCommitted), skipping});
  EXPECT_EQ(counters.counts().rounds.at(kJob).skipped, Steps(3));
}

TEST(DurableCounters, RoundsThatARollBackTookAwayStayCounted) {
  DurableCounters counters{Snapshot{}};
  for (RoundNumber number : {1, 2, 3}) {
    counters.count({job(0, number), round(0, number, RoundState::kCommitted)});
  }
  counters.count({job(1, 1)});
  counters.count({job(1, 2), round(1, 2, RoundState::kCommitted)});
  EXPECT_EQ(committed(counters), 4);
}

TEST(DurableCounters, WhatWasThereAtTheStartIsNotCountedButItsOpenRoundIs) {
  const RoundKey open{kJob, 2, 6};
  Snapshot snapshot;
  snapshot.jobs = {job(2, 5)};
  snapshot.contributions = {part({kJob, 2, 5}, 1, ContributionState::kCommitted),
                            part(open, 1, ContributionState::kReported),
                            part(open, 2, ContributionState::kMoved)};
  DurableCounters counters(snapshot);
  counters.count({round(2, 5, RoundState::kCommitted)});
  EXPECT_EQ(committed(counters), 0);
  counters.count(
      {round(2, 6, RoundState::kCommitted), part(open, 1, ContributionState::kCommitted)});
  EXPECT_EQ(committed(counters), 1);
  EXPECT_EQ(of(counters, ContributionState::kCommitted), 1);
  EXPECT_EQ(of(counters, ContributionState::kMoved), 1);
}

TEST(DurableCounters, CountsEventsAndTheKindsThatTellOfTrouble) {
  DurableCounters counters{Snapshot{}};
  EXPECT_EQ(counters.counts().incidents.at("round_aborted"), 0);
  EventRecord event;
  event.kind = event_kind::kRoundAborted, event.job = kJob, event.severity = Severity::kWarning;
  counters.count({job(0, 0), event, event});
  event.kind = event_kind::kAgentJoined, event.job = {};
  counters.count({event});
  const Counts counts = counters.counts();
  EXPECT_EQ(counts.incidents.at("round_aborted"), 2);
  EXPECT_FALSE(counts.incidents.contains("agent_joined"));
  EXPECT_EQ(counts.rounds.at(kJob).aborted, 2);
  EXPECT_EQ(counts.events[static_cast<std::size_t>(Severity::kWarning)], 3);
}

TEST(DurableCounters, OfVeryManyEndedJobsTheOldestAreForgotten) {
  DurableCounters counters{Snapshot{}};
  for (std::uint64_t id = 1; id <= DurableCounters::kEndedJobsMax + 2; ++id) {
    JobRecord ended = job(0, 0, JobPhase::kCancelled);
    ended.id = JobId(id);
    counters.count({ended, ended});
  }
  EXPECT_EQ(counters.counts().rounds.size(), DurableCounters::kEndedJobsMax);
  EXPECT_FALSE(counters.counts().rounds.contains(JobId(2)));
  RoundRecord late = round(0, 1, RoundState::kCommitted);
  late.key.job = JobId(1);
  counters.count({late});
  EXPECT_FALSE(counters.counts().rounds.contains(JobId(1))) << "for good";
}

TEST(DurableCounters, WhatCheckpointsTakeFollowsTheirStates) {
  CheckpointRecord known;
  known.id = CheckpointId(1), known.state = CheckpointState::kStored;
  known.parts.resize(1);
  known.parts[0].files = {{"model", Bytes(10), std::string(64, 'a')}};
  Snapshot snapshot;
  snapshot.checkpoints = {known};
  DurableCounters counters{snapshot};
  EXPECT_EQ(counters.counts().checkpoints_stored, Bytes(10));
  CheckpointRecord next = known;
  next.id = CheckpointId(2), next.state = CheckpointState::kUploading;
  counters.count({next});
  EXPECT_EQ(counters.counts().checkpoints_pending, Bytes(10));
  next.state = CheckpointState::kStored, known.state = CheckpointState::kDeleted;
  counters.count({next, known});
  EXPECT_EQ(counters.counts().checkpoints_stored, Bytes(10));
  EXPECT_EQ(counters.counts().checkpoints_pending, Bytes());
}

}  // namespace
}  // namespace shoal::coordinator
