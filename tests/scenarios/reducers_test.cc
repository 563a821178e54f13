// Stories of a job with sync.topology = "param_server": its reducers come, die, are drained and are
// missing, and it trains on.
#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::AgentVerb;
using coordinator::ContributionRecord;
using coordinator::JobPhase;
using coordinator::RejectReason;
using outer_opt::TopologyReason;

JobSpec job_with_reducers(std::int64_t rounds) {
  JobSpec spec = Cluster::small_job(rounds);
  change_sync(spec, [](SyncSpec& sync) { sync.topology = Topology::kParamServer; });
  return spec;
}

// Contributions of reducers that were in the plan of this round.
std::vector<ContributionRecord> reducers_of(Cluster& cluster, RoundNumber round) {
  std::vector<ContributionRecord> reducers;
  const RoundKey wanted{cluster.job()->id, cluster.job()->epoch, round};
  for (const auto& [key, contribution] : cluster.world().tables().contributions) {
    if (key.first != wanted || !contribution.reducer) continue;
    if (contribution.member_index >= 0) reducers.push_back(contribution);
  }
  return reducers;
}

outer_opt::TopologyChoice choice_of(Cluster& cluster, RoundNumber round) {
  return cluster.round(round)->reduces.at(0).choice;
}

TEST(Reducers, OwnPartsAndAreNeverTrained) {
  Cluster cluster = Cluster::with_reducers(4, 2);
  cluster.submit(job_with_reducers(6));
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->committed_tokens, Tokens(6 * 4 * 5 * 2 * 8));
  const auto reducers = reducers_of(cluster, 4);
  ASSERT_EQ(reducers.size(), 2U);
  for (const ContributionRecord& reducer : reducers) {
    EXPECT_GT(reducer.part_count, 0);
    EXPECT_GT(reducer.stats.sent.count(), 0) << "its bytes count, though it is done last";
    EXPECT_EQ(reducer.report.tokens.n, 0);
  }
  EXPECT_EQ(choice_of(cluster, 4).topology, Topology::kParamServer);
}

TEST(Reducers, WithoutOneTheRoundIsAButterfly) {
  Cluster cluster(3);
  cluster.submit(job_with_reducers(4));
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(choice_of(cluster, 3),
            (outer_opt::TopologyChoice{Topology::kButterfly, TopologyReason::kNoReducers}));
}

TEST(Reducers, OneThatDiesInAReduceIsReplacedByTheOthersAndComesBack) {
  Cluster cluster = Cluster::with_reducers(4, 2);
  cluster.submit(job_with_reducers(40));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  Trainer& reducer = *cluster.host(5).trainers().front();
  ASSERT_TRUE(cluster.until([&] { return reducer.reducing(); })) << cluster.objection();
  const RoundNumber round = cluster.job()->committed_round + 1;
  const Instant died = cluster.world().sim().now();
  reducer.kill(9);
  ASSERT_TRUE(cluster.until_round(round, seconds(10))) << cluster.objection();
  EXPECT_LE((cluster.world().sim().now() - died).seconds(), 10.0);
  EXPECT_EQ(reducers_of(cluster, round).size(), 1U);
  EXPECT_EQ(cluster.count(round, coordinator::ContributionState::kCommitted), 4);
  EXPECT_EQ(cluster.job()->failures_in_row, 0);
  ASSERT_TRUE(cluster.until([&] {
    return reducers_of(cluster, cluster.job()->committed_round).size() == 2;
  })) << cluster.objection();
}

TEST(Reducers, AFrozenOneIsExcludedSoon) {
  Cluster cluster = Cluster::with_reducers(3, 1);
  cluster.submit(job_with_reducers(40));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  Trainer& reducer = *cluster.host(3).trainers().front();
  ASSERT_TRUE(cluster.until([&] { return reducer.reducing(); })) << cluster.objection();
  const RoundNumber round = cluster.job()->committed_round + 1;
  const Instant froze = cluster.world().sim().now();
  reducer.pause();
  ASSERT_TRUE(cluster.until_round(round, seconds(30))) << cluster.objection();
  EXPECT_LE((cluster.world().sim().now() - froze).seconds(), 11.0);
  EXPECT_EQ(choice_of(cluster, round).reason, TopologyReason::kNoReducers);
}

TEST(Reducers, ADrainedOneIsLetGoAndAskedNoMore) {
  Cluster cluster = Cluster::with_reducers(3, 1);
  cluster.submit(job_with_reducers(40));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  AgentId drained;
  for (const auto& [id, agent] : cluster.world().tables().agents) {
    if (agent.name == "host-3") drained = id;
  }
  cluster.coordinator().command(drained, AgentVerb::kDrain);
  ASSERT_TRUE(cluster.until([&] { return !cluster.host(3).trainers().front()->busy(); }))
      << cluster.objection();
  const RoundNumber next = cluster.job()->committed_round + 2;
  ASSERT_TRUE(cluster.until_round(next)) << cluster.objection();
  EXPECT_TRUE(reducers_of(cluster, next).empty());
  EXPECT_EQ(choice_of(cluster, next).reason, TopologyReason::kNoReducers);
}

TEST(Reducers, ServeTwoJobsAndEveryStageOfAPipeline) {
  Cluster cluster = Cluster::with_reducers(4, 1);
  JobSpec pipeline = job_with_reducers(6);
  pipeline.name = "deep";
  pipeline.model.layers = 2;
  pipeline.swarm = {.stages = 2, .min_replicas = 1, .max_replicas = 1};
  JobSpec flat = job_with_reducers(6);
  flat.swarm.max_replicas = 2;
  cluster.submit(flat);
  cluster.submit(pipeline);
  ASSERT_TRUE(cluster.until(
      [&] { return cluster.world().tables().jobs.size() == 2 && cluster.world().all_jobs_over(); },
      seconds(600)))
      << cluster.objection();
  for (const auto& [id, job] : cluster.world().tables().jobs) {
    EXPECT_EQ(job.phase, JobPhase::kCompleted) << job.spec.name;
  }
  EXPECT_GE(cluster.host(4).trainers().size(), 3U) << "one process per job and stage";
}

}  // namespace
}  // namespace shoal::sim
