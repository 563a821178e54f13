// Metrics of durable records: commits, commits written again, rollbacks, restarts, durations.
#include "coordinator/service/record_observer.h"

#include <cmath>

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

// The observer with the metrics of a process.
class RecordObserverTest : public ::testing::Test {
 protected:
  void start(const Snapshot& snapshot = {}) {
    meters_ = std::make_shared<Meters>();
    observer_ = std::make_unique<RecordObserver>(snapshot, meters_);
  }
  void observe(const std::vector<Record>& records) { observer_->observe(now_, records); }

  // One series of job_7, or an empty one. Counters and histograms only.
  prometheus::ClientMetric series(const std::string& name, const std::string& value = "") const {
    for (const prometheus::MetricFamily& family : meters_->registry.Collect()) {
      if (family.name != name) continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        const bool fits = std::ranges::any_of(metric.label, [&](const auto& label) {
          return value.empty() ? label.value == to_string(kJob) : label.value == value;
        });
        if (fits) return metric;
      }
    }
    return {};
  }
  double count(const std::string& name, const std::string& value = "") const {
    return series(name, value).counter.value;
  }
  // How many were observed, and their sum in seconds, to the nanosecond.
  std::pair<std::uint64_t, double> times(const std::string& name) const {
    const auto histogram = series(name).histogram;
    return {histogram.sample_count, std::round(histogram.sample_sum * 1e9) / 1e9};
  }
  double committed() const { return count("shoal_rounds_total", "committed"); }
  double of(ContributionState state) const {
    return count("shoal_contributions_total", to_string(state));
  }

  Instant now_ = from_unix_ms(1'800'000'000'000);
  std::shared_ptr<Meters> meters_;
  std::unique_ptr<RecordObserver> observer_;
};

TEST_F(RecordObserverTest, ACommittedRoundCountsOnceWithItsContributions) {
  start();
  const RoundKey key{kJob, 0, 1};
  observe({job(0, 0), round(0, 1, RoundState::kOpen), part(key, 1, ContributionState::kTraining),
           part(key, 2, ContributionState::kTraining)});
  EXPECT_EQ(committed(), 0);
  observe({round(0, 1, RoundState::kCommitted), part(key, 1, ContributionState::kCommitted),
           part(key, 2, ContributionState::kRejected, RejectReason::kOutlier)});
  EXPECT_EQ(committed(), 1);
  EXPECT_EQ(of(ContributionState::kCommitted), 1);
  EXPECT_EQ(of(ContributionState::kRejected), 1);
  EXPECT_EQ(count("shoal_contributions_rejected_total", "outlier"), 1);

  // Its evaluation writes it again.
  observe({round(0, 1, RoundState::kCommitted), part(key, 1, ContributionState::kCommitted)});
  EXPECT_EQ(committed(), 1);
  EXPECT_EQ(of(ContributionState::kCommitted), 1);
}

TEST_F(RecordObserverTest, SkippedStepsCountWithTheirRound) {
  start();
  const RoundKey key{kJob, 0, 1};
  ContributionRecord skipping = part(key, 1, ContributionState::kCommitted);
  skipping.report.skipped = Steps(3);
  observe({job(0, 0), round(0, 1, RoundState::kOpen), skipping});
  EXPECT_EQ(count("shoal_steps_skipped_total"), 0);
  observe({round(0, 1, RoundState::kCommitted), skipping});
  EXPECT_EQ(count("shoal_steps_skipped_total"), 3);
}

TEST_F(RecordObserverTest, RoundsThatARollBackTookAwayStayCounted) {
  start();
  for (RoundNumber number : {1, 2, 3}) {
    observe({job(0, number), round(0, number, RoundState::kCommitted)});
  }
  observe({job(1, 1)});
  observe({job(1, 2), round(1, 2, RoundState::kCommitted)});
  EXPECT_EQ(committed(), 4);
}

TEST_F(RecordObserverTest, RecordsOfTheStartAreNotCountedButTheOpenRoundIs) {
  const RoundKey open{kJob, 2, 6};
  Snapshot snapshot;
  snapshot.jobs = {job(2, 5)};
  snapshot.contributions = {part({kJob, 2, 5}, 1, ContributionState::kCommitted),
                            part(open, 1, ContributionState::kReported),
                            part(open, 2, ContributionState::kMoved)};
  start(snapshot);
  observe({round(2, 5, RoundState::kCommitted)});
  EXPECT_EQ(committed(), 0);
  observe({round(2, 6, RoundState::kCommitted), part(open, 1, ContributionState::kCommitted)});
  EXPECT_EQ(committed(), 1);
  EXPECT_EQ(of(ContributionState::kCommitted), 1);
  EXPECT_EQ(of(ContributionState::kMoved), 1);
}

TEST_F(RecordObserverTest, EventsCountBySeverityAndIncidentsByKind) {
  start();
  EXPECT_EQ(count("shoal_incidents_total", "round_aborted"), 0);
  EventRecord event;
  event.kind = event_kind::kRoundAborted, event.job = kJob, event.severity = Severity::kWarning;
  observe({job(0, 0), event, event});
  event.kind = event_kind::kAgentJoined, event.job = {};
  observe({event});
  EXPECT_EQ(count("shoal_incidents_total", "round_aborted"), 2);
  EXPECT_TRUE(series("shoal_incidents_total", "agent_joined").label.empty());
  EXPECT_EQ(count("shoal_rounds_total", "aborted"), 2);
  EXPECT_EQ(count("shoal_events_total", "warning"), 3);
}

TEST_F(RecordObserverTest, TheLastRoundOfAJobCountsWithItsEnd) {
  start();
  observe({job(0, 0), round(0, 1, RoundState::kOpen)});
  observe({job(0, 1, JobPhase::kCompleted), round(0, 1, RoundState::kCommitted)});
  EXPECT_EQ(committed(), 1);
  observe({job(0, 1, JobPhase::kCompleted), round(0, 1, RoundState::kCommitted)});
  EXPECT_EQ(committed(), 1);
  JobRecord removed = job(0, 1, JobPhase::kCompleted);
  removed.removed_at = now_;
  observe({removed});
  EXPECT_TRUE(series("shoal_rounds_total", "committed").label.empty());
}

// Opened at 100 s, averaging from 130 s on, first vote seen at 134 s, committed at 135 s. A first
// attempt that failed at 125 s does not count.
TEST_F(RecordObserverTest, ARoundAndItsReducesAreTimed) {
  start();
  RoundRecord one = round(0, 1, RoundState::kVoting);
  one.opened_at = Instant() + seconds(100);
  one.reduces.resize(3);
  one.reduces[0].attempt_started_at = Instant() + seconds(120);
  now_ = Instant() + seconds(124);
  observe({job(0, 0), one});
  one.state = RoundState::kFrozen;
  observe({one});
  one.state = RoundState::kVoting;
  one.reduces[0].attempt_started_at = Instant() + seconds(130);
  one.reduces[1].attempt_started_at = Instant() + seconds(131);
  one.reduces[2].attempt_started_at = Instant() + seconds(132);
  one.reduces[2].given_up = true;
  now_ = Instant() + seconds(134);
  observe({one});
  one.state = RoundState::kCommitted;
  one.committed_at = now_ = Instant() + seconds(135);
  observe({job(0, 1), one});
  EXPECT_EQ(times("shoal_round_duration_seconds"), std::pair(std::uint64_t{1}, 35.0));
  EXPECT_EQ(times("shoal_reduce_duration_seconds"), std::pair(std::uint64_t{2}, 4.0 + 3.0));
}

TEST_F(RecordObserverTest, AJoinIsTimedFromItsAssignmentUntilItServesFirst) {
  ReplicaRecord replica;
  replica.id = ReplicaId(4), replica.job = kJob;
  replica.created_at = Instant() + seconds(100);
  start();
  observe({job(0, 0), replica});
  replica.state = ReplicaState::kLoading;
  observe({replica});
  replica.state = ReplicaState::kServing;
  replica.updated_at = Instant() + seconds(142);
  observe({replica});
  for (const ReplicaState state : {ReplicaState::kAveraging, ReplicaState::kAbsent,
                                   ReplicaState::kLoading, ReplicaState::kServing}) {
    replica.state = state;
    observe({replica});
  }
  EXPECT_EQ(times("shoal_join_duration_seconds"), std::pair(std::uint64_t{1}, 42.0));
}

TEST_F(RecordObserverTest, AJoinThatARestartInterruptsIsTimedWhole) {
  Snapshot snapshot;
  snapshot.jobs = {job(0, 0)};
  ReplicaRecord replica;
  replica.id = ReplicaId(4), replica.job = kJob;
  replica.created_at = Instant() + seconds(100);
  replica.state = ReplicaState::kLoading;
  snapshot.replicas = {replica};
  start(snapshot);
  replica.state = ReplicaState::kServing;
  replica.updated_at = Instant() + seconds(160);
  observe({replica});
  EXPECT_EQ(times("shoal_join_duration_seconds"), std::pair(std::uint64_t{1}, 60.0));
}

TEST_F(RecordObserverTest, TheSpaceOfCheckpointsFollowsTheirStates) {
  CheckpointRecord known;
  known.id = CheckpointId(1), known.state = CheckpointState::kStored;
  known.key.job = kJob;
  known.parts.resize(1);
  known.parts[0].files = {{"model", Bytes(10), std::string(64, 'a')}};
  Snapshot snapshot;
  snapshot.jobs = {job(0, 0)};
  snapshot.checkpoints = {known};
  start(snapshot);
  EXPECT_EQ(observer_->checkpoint_space().stored, Bytes(10));
  CheckpointRecord next = known;
  next.id = CheckpointId(2), next.state = CheckpointState::kUploading;
  next.created_at = Instant() + seconds(100);
  observe({next});
  EXPECT_EQ(observer_->checkpoint_space().pending, Bytes(10));
  next.state = CheckpointState::kStored, known.state = CheckpointState::kDeleted;
  next.updated_at = Instant() + seconds(107);
  observe({next, known});
  EXPECT_EQ(observer_->checkpoint_space().stored, Bytes(10));
  EXPECT_EQ(observer_->checkpoint_space().pending, Bytes());
  next.pinned = true, next.updated_at = Instant() + seconds(900);
  observe({next});
  EXPECT_EQ(times("shoal_checkpoint_duration_seconds"), std::pair(std::uint64_t{1}, 7.0));
}

}  // namespace
}  // namespace shoal::coordinator
