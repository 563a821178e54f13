// The tables of the four machines, and what a move writes.
#include "coordinator/core/state/machines.h"

#include <gtest/gtest.h>

#include "coordinator/core/transaction_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Machines, TablesAllowWhatTheHeaderSays) {
  EXPECT_TRUE(allowed(JobPhase::kQueued, JobPhase::kGathering));
  EXPECT_FALSE(allowed(JobPhase::kQueued, JobPhase::kTraining));
  EXPECT_TRUE(allowed(JobPhase::kStalled, JobPhase::kFailed));
  EXPECT_FALSE(allowed(JobPhase::kCompleted, JobPhase::kFailed));
  EXPECT_FALSE(allowed(ReplicaState::kAssigned, ReplicaState::kServing));
  EXPECT_FALSE(allowed(ReplicaState::kFailed, ReplicaState::kReleased));
  EXPECT_FALSE(allowed(RoundState::kOpen, RoundState::kCommitted));
  EXPECT_FALSE(allowed(RoundState::kCommitted, RoundState::kAborted));
}

constexpr Instant kNow{1'700'000'000'000'000'000};

State with_job(JobPhase phase) {
  State state;
  JobRecord job{.id = JobId(1), .phase = phase};
  job.spec.name = "kjv";
  state.jobs.put(job.id, job);
  return state;
}

TEST(Machines, AMoveOfAJobIsWrittenCountedAndTold) {
  State state = with_job(JobPhase::kWarming);
  Transaction tx(state, kNow);
  transition(tx, JobId(1), JobPhase::kTraining, JobReason::kRunning);
  EXPECT_EQ(state.jobs.at(JobId(1)).started_at, kNow);
  EXPECT_EQ(state.transitions.at("job warming training"), 1);
  const Effects effects = effects_of(tx);
  ASSERT_EQ(effects.size(), 3u) << "the counter of events, the job, the event";
  const auto& event = std::get<EventRecord>(std::get<Persist>(effects[2]).record);
  EXPECT_EQ(event.message, "job kjv warming -> training (running)");
}

TEST(Machines, TheFirstStartAndTheEndAreDated) {
  State state = with_job(JobPhase::kStalled);
  state.jobs.at(JobId(1)).started_at = Instant{5};
  Transaction tx(state, kNow);
  transition(tx, JobId(1), JobPhase::kTraining, JobReason::kRunning);
  EXPECT_EQ(state.jobs.at(JobId(1)).started_at, Instant{5});
  transition(tx, JobId(1), JobPhase::kFailed, JobReason::kTooManyFailures, "20 failures");
  EXPECT_EQ(state.jobs.at(JobId(1)).finished_at, kNow);
  EXPECT_EQ(state.jobs.at(JobId(1)).detail, "20 failures");
}

TEST(Machines, AReasonThatStaysIsNotWrittenAgain) {
  State state = with_job(JobPhase::kQueued);
  Transaction tx(state, kNow);
  set_reason(tx, JobId(1), JobReason::kNoAgents);
  const std::size_t once = tx.activity();
  set_reason(tx, JobId(1), JobReason::kNoAgents);
  EXPECT_EQ(tx.activity(), once);
  set_reason(tx, JobId(1), JobReason::kNoAgents, "with a detail");
  EXPECT_GT(tx.activity(), once);
}

TEST(MachinesDeathTest, AMoveThatIsNotInTheTableStopsTheProcess) {
  State state = with_job(JobPhase::kCompleted);
  Transaction tx(state, kNow);
  EXPECT_DEATH(transition(tx, JobId(1), JobPhase::kTraining, JobReason::kRunning),
               "job: completed -> training");
}

}  // namespace
}  // namespace shoal::coordinator
