// A database with records that no rule of this program can have made.
#include "coordinator/core/state/corrupt_records.h"

#include <gmock/gmock.h>

#include "coordinator/core/restore_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

struct TrainingRig : BackupRig {
  TrainingRig() {
    for (RoundNumber round = 1; round <= 3; ++round) commit(round);
  }
};

TEST(CorruptRecords, AJobWithABadLedgerFailsAndTheOthersGoOn) {
  TrainingRig rig;
  Snapshot snapshot = rig.snapshot();
  JobRecord bad = snapshot.jobs[0];
  bad.id = JobId(7), bad.spec.name = "bad", bad.phase = JobPhase::kQueued;
  bad.committed_round = 0;
  bad.next_sequence = 10;
  bad.returned = {{0, 1000}};
  snapshot.jobs.push_back(bad);
  snapshot.counters.next_job = 8;
  rig.restore(snapshot);
  EXPECT_EQ(rig.job(JobId(7)).phase, JobPhase::kFailed);
  EXPECT_EQ(rig.job(JobId(7)).reason, JobReason::kCorruptRecord);
  EXPECT_THAT(rig.job(JobId(7)).detail, HasSubstr("returned sequences"));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.restart();
  EXPECT_EQ(rig.job(JobId(7)).phase, JobPhase::kFailed);
}

TEST(CorruptRecords, AJobThatTrainsFailsWithItsReplicas) {
  TrainingRig rig;
  Snapshot snapshot = rig.snapshot();
  snapshot.jobs[0].returned = {{50, 1}, {10, 5}};
  rig.restore(snapshot);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kCorruptRecord);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {})});
  EXPECT_FALSE(is_live(rig.state(), rig.rep_a));
}

TEST(CorruptRecords, IdsBeyondAllAreTakenBack) {
  TrainingRig rig;
  Snapshot snapshot = rig.snapshot();
  JobRecord pwned = snapshot.jobs[0];
  pwned.id = JobId((std::uint64_t{1} << 63) - 1), pwned.spec.name = "pwned";
  snapshot.jobs.push_back(pwned);
  snapshot.counters.next_job = std::uint64_t{1} << 63;
  rig.restore(snapshot);
  EXPECT_EQ(rig.state().counters.next_job, rig.id.n + 1);
  EXPECT_EQ(rig.job(pwned.id).reason, JobReason::kCorruptRecord);
  JobSpec spec = small_job();
  spec.name = "next";
  EXPECT_EQ(*rig.submit(spec), JobId(rig.id.n + 1));
}

TEST(CorruptRecords, AReplicaOfNoJobIsDropped) {
  TrainingRig rig;
  Snapshot snapshot = rig.snapshot();
  ReplicaRecord stray = snapshot.replicas[0];
  stray.id = ReplicaId(99), stray.job = JobId(55);
  snapshot.replicas.push_back(stray);
  snapshot.counters.next_replica = 100;
  rig.restore(snapshot);
  EXPECT_FALSE(is_live(rig.state(), ReplicaId(99)));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

}  // namespace
}  // namespace shoal::coordinator
