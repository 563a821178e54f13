// The vectors of each kind of job, counted by hand.
#include "job/training_vectors.h"

#include <gtest/gtest.h>

#include "job/job_options_test_util.h"

namespace shoal {
namespace {

TEST(TrainingVectors, DilocoWithAdamw) {
  JobSpec spec;
  const ReplicaVectors vectors = replica_vectors(spec);
  EXPECT_EQ(vectors.device, 4);         // 16 bytes per parameter
  EXPECT_EQ(vectors.device_peak, 4.5);  // 18
  EXPECT_EQ(vectors.host, 2);           // 8
  EXPECT_EQ(vectors.host_round, 3);
  EXPECT_EQ(vectors.host_checkpoint, 3 + 2 + 2);
  EXPECT_EQ(vectors.host_source, 3 + 2);
  EXPECT_EQ(training_vectors(spec), 8.5);
}

TEST(TrainingVectors, ThePseudoGradientOfAProgramIsACopy) {
  JobSpec spec;
  spec.trainer.kind = TrainerKind::kPython;
  EXPECT_EQ(replica_vectors(spec).host_round, 4);
}

TEST(TrainingVectors, AJobWithoutCheckpointsHoldsNoneOfThem) {
  JobSpec spec;
  spec.checkpoint.every_rounds = 0;
  EXPECT_EQ(replica_vectors(spec).host_checkpoint, 0);
}

TEST(TrainingVectors, MomentsThatTravelAreCopiedForTheJoiner) {
  JobSpec spec;
  spec.train.join = JoinMoments::kMoments;
  EXPECT_EQ(replica_vectors(spec).host_source, 3 + 2 + 2);
}

TEST(TrainingVectors, OverlapKeepsTheMomentsOfTwoCuts) {
  JobSpec spec;
  change_sync(spec, [](SyncOptions& sync) { sync.overlap_steps = Steps(2); });
  EXPECT_EQ(replica_vectors(spec).host_checkpoint, 4 + 4 + 2);
}

TEST(TrainingVectors, DdpHasItsMomentsInTheOuterState) {
  const ReplicaVectors vectors = replica_vectors(default_spec(SyncAlgorithm::kDdp));
  EXPECT_EQ(vectors.device, 3);
  EXPECT_EQ(vectors.device_peak, 4);
  EXPECT_EQ(vectors.host, 3);
  EXPECT_EQ(vectors.host_checkpoint, 5 + 3);
}

TEST(TrainingVectors, ShardedMomentumIsSharedByTheReplicas) {
  JobSpec spec;
  change_sync(spec, [](SyncOptions& sync) { sync.outer_state = OuterState::kSharded; });
  spec.swarm.min_replicas = 4;
  EXPECT_EQ(replica_vectors(spec).host, 1.5);
}

}  // namespace
}  // namespace shoal
