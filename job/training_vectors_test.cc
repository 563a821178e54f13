// The vectors of each kind of job, counted by hand.
#include "job/training_vectors.h"

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"

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
  change_sync(spec, [](SyncSpec& sync) { sync.overlap_steps = Steps(2); });
  EXPECT_EQ(replica_vectors(spec).host_checkpoint, 4 + 4 + 2);
}

TEST(TrainingVectors, EachVectorOfTheOuterOptimizerIsOnTheHost) {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  const double momentum = replica_vectors(spec).host;
  change_sync(spec, [](SyncSpec& sync) { sync.outer.method = OuterMethod::kSgd; });
  EXPECT_EQ(replica_vectors(spec).host, momentum);
  change_sync(spec, [](SyncSpec& sync) { sync.outer.method = OuterMethod::kAdam; });
  EXPECT_EQ(replica_vectors(spec).host, momentum + 1);
}

TEST(TrainingVectors, AJoinerTakesTheSharedOnesAndTheMoments) {
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  EXPECT_EQ(shared_vectors(spec), 2);
  EXPECT_EQ(state_vectors(spec), 4);
  change_sync(spec, [](SyncSpec& sync) { sync.outer.method = OuterMethod::kAdam; });
  EXPECT_EQ(shared_vectors(spec), 3);
  EXPECT_EQ(state_vectors(spec), 5);
  EXPECT_EQ(state_vectors(default_spec(SyncAlgorithm::kDdp)), 3) << "its moments are shared";
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
  change_sync(spec, [](SyncSpec& sync) { sync.outer_state = OuterState::kSharded; });
  spec.swarm.min_replicas = 4;
  EXPECT_EQ(replica_vectors(spec).host, 1.5);
}

}  // namespace
}  // namespace shoal
