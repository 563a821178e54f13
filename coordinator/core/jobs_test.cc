// The phases of a job, as devices come and go. Pauses are in pause_test.cc.
#include "coordinator/core/jobs.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// A job for two replicas, and as many agents.
struct JobsTest : testing::Test {
  JobId submit(const JobSpec& spec = small_job()) { return *rig.submit(spec); }
  const JobRecord& job(JobId id) const { return rig.job(id); }

  Rig rig;
};

TEST_F(JobsTest, WithoutADeviceItWaitsAndSaysWhy) {
  const JobId id = submit();
  EXPECT_EQ(job(id).phase, JobPhase::kQueued);
  EXPECT_EQ(job(id).reason, JobReason::kNoAgents);
}

TEST_F(JobsTest, ItGathersUntilMinReplicasAreThereForTheWindow) {
  const JobId id = submit();
  rig.join("a");
  EXPECT_EQ(job(id).phase, JobPhase::kGathering);
  EXPECT_EQ(job(id).detail, "1 of 2 replicas (swarm.min_replicas)");
  rig.wait(seconds(1));
  rig.join("b");
  rig.wait(rig.options.gather_window - nanoseconds(1));
  EXPECT_EQ(job(id).phase, JobPhase::kGathering) << "others may come yet";
  rig.wait(nanoseconds(1));
  EXPECT_EQ(job(id).phase, JobPhase::kWarming);
  EXPECT_EQ(job(id).reason, JobReason::kLoading);
}

TEST_F(JobsTest, ItDoesNotWaitForMoreThanItTakes) {
  JobSpec spec = small_job();
  spec.swarm.max_replicas = 2;
  rig.join("a"), rig.join("b");
  EXPECT_EQ(job(submit(spec)).phase, JobPhase::kWarming);
}

TEST_F(JobsTest, ItTrainsWhenAllHaveLoaded) {
  const auto a = rig.join("a"), b = rig.join("b");
  const JobId id = submit();
  rig.wait(rig.options.gather_window);
  rig.load(a);
  EXPECT_EQ(job(id).phase, JobPhase::kWarming);
  EXPECT_EQ(job(id).started_at.ns, 0);
  rig.load(b);
  EXPECT_EQ(job(id).phase, JobPhase::kTraining);
  EXPECT_EQ(job(id).started_at, rig.now);
  EXPECT_NE(current_round(rig.state(), job(id)), nullptr);
}

TEST_F(JobsTest, OneThatFailsWhileItLoadsIsLackedAgain) {
  const auto a = rig.join("a");
  rig.join("b");
  const JobId id = submit();
  rig.wait(rig.options.gather_window);
  ASSERT_EQ(job(id).phase, JobPhase::kWarming);
  const ReplicaId replica = rig.last<Assign>(a)->replica;
  rig.say(a, ReplicaFailed{replica, ReplicaFailure::kTrainerExited, "signal 9"});
  EXPECT_EQ(job(id).phase, JobPhase::kGathering);
}

TEST_F(JobsTest, TooFewInSyncReplicasStallItAndANewOneEndsThat) {
  PairRig pair(small_job());
  const auto c = pair.join("c");
  pair.say(pair.b, ReplicaFailed{pair.rep_b, ReplicaFailure::kDeviceLost, ""});
  EXPECT_EQ(pair.job(pair.id).phase, JobPhase::kStalled);
  EXPECT_EQ(pair.job(pair.id).reason, JobReason::kBelowMinReplicas);
  EXPECT_EQ(pair.job(pair.id).detail, "1 of 2 replicas");
  pair.load(c, {7, 7});
  EXPECT_EQ(pair.job(pair.id).phase, JobPhase::kTraining);
}

TEST_F(JobsTest, TooManyFailuresInARowEndIt) {
  rig.options.failures_in_row_max = 2;
  rig.restart();
  const auto a = rig.join("a");
  const JobId id = submit();
  for (int failures = 0; failures < 3; ++failures) {
    ASSERT_FALSE(is_terminal(job(id).phase)) << failures;
    rig.say(a, ReplicaFailed{rig.last<Assign>(a)->replica, ReplicaFailure::kTrainerExited, "1"});
    rig.wait(seconds(2)), rig.say(a, Heartbeat{});
  }
  EXPECT_EQ(job(id).phase, JobPhase::kFailed);
  EXPECT_EQ(job(id).reason, JobReason::kTooManyFailures);
  EXPECT_EQ(job(id).detail,
            "3 failures since the last committed round; the last: trainer_exited: 1");
  EXPECT_EQ(job(id).finished_at.ns > 0, true);
}

}  // namespace
}  // namespace shoal::coordinator
