// A job that continues a checkpoint of one that has ended: the checkers of the campaign follow what
// they know of the first one into the second.
#include <gtest/gtest.h>

#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::CheckpointRecord;
using coordinator::CheckpointState;
using coordinator::JobPhase;

// The newest one that is stored.
const CheckpointRecord* newest_cut(Cluster& cluster) {
  const CheckpointRecord* newest = nullptr;
  for (const auto& [id, checkpoint] : cluster.world().tables().checkpoints) {
    if (checkpoint.state != CheckpointState::kStored) continue;
    if (newest == nullptr || newest->key < checkpoint.key) newest = &checkpoint;
  }
  return newest;
}

JobSpec more_of(const JobSpec& spec, CheckpointId cut, std::int64_t rounds) {
  JobSpec more = spec;
  more.name = "more";
  more.train.steps = Steps(spec.train.steps.count() + 5 * rounds);
  more.train.continue_from = to_string(cut);
  return more;
}

void expect_continued(Cluster& cluster, const JobSpec& spec) {
  cluster.submit(spec);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  const CheckpointRecord cut = *newest_cut(cluster);
  const Tokens tokens = cluster.job()->committed_tokens;
  cluster.submit(more_of(spec, cut.id, 4));
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->spec.name == "more"; }));
  EXPECT_EQ(cluster.job()->committed_round, 6);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 10);
  EXPECT_EQ(cluster.job()->committed_tokens.count(), tokens.count() / 6 * 10);
  EXPECT_EQ(cluster.round(6), nullptr) << "that is the other job's";
  EXPECT_NE(cluster.round(7), nullptr);
}

TEST(Continuing, ItsFirstRoundFollowsTheLastOneOfTheOther) {
  Cluster cluster(3);
  expect_continued(cluster, Cluster::small_job(6));
}

TEST(Continuing, APipelineToo) {
  Cluster cluster(4);
  JobSpec spec = Cluster::small_job(6);
  spec.model.layers = 2;
  spec.swarm.stages = 2;
  expect_continued(cluster, spec);
}

TEST(Continuing, ItGoesBackToWhereItBegan) {
  Cluster cluster(2);
  const JobSpec spec = Cluster::small_job(6);
  cluster.submit(spec);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  cluster.submit(more_of(spec, newest_cut(cluster)->id, 10));
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->spec.name == "more"; }));
  ASSERT_TRUE(cluster.until_round(8)) << cluster.objection();
  for (int host = 0; host < 2; ++host) cluster.host(host).trainers()[0]->kill(9);
  ASSERT_TRUE(cluster.until([&] { return cluster.job()->epoch == 1; })) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 6);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_round, 16);
}

}  // namespace
}  // namespace shoal::sim
