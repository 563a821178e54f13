#include "coordinator/core/records/records.h"

#include <gmock/gmock.h>

#include "coordinator/core/records/records_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Records, FilesOfACheckpointAreThoseOfItsPartsInOrder) {
  RandomRecords random(1);
  const auto a = random.drawn<FileEntry>(), b = random.drawn<FileEntry>(),
             c = random.drawn<FileEntry>();
  CheckpointRecord checkpoint;
  checkpoint.parts.resize(3);
  checkpoint.parts[0].files = {a, b};
  checkpoint.parts[2].files = {c};
  EXPECT_THAT(all_files(checkpoint), testing::ElementsAre(a, b, c));
  EXPECT_TRUE(all_files(CheckpointRecord()).empty());
}

TEST(Records, JobsAndReplicasEndInFewStates) {
  int jobs = 0, replicas = 0;
  for (const auto& phase : kEnumerators<JobPhase>) jobs += is_terminal(phase.value);
  for (const auto& state : kEnumerators<ReplicaState>) replicas += is_terminal(state.value);
  EXPECT_EQ(jobs, 3);
  EXPECT_EQ(replicas, 2);
  EXPECT_FALSE(is_terminal(JobPhase::kPaused));
  EXPECT_FALSE(is_terminal(ReplicaState::kAbsent));
}

}  // namespace
}  // namespace shoal::coordinator
