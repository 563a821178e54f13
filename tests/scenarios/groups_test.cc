// Rounds in groups, over the whole cluster: a member that is lost or frozen costs its group the
// round and nobody else, and replicas that never average all at once stay together.
#include <algorithm>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionState;
using coordinator::JobPhase;

JobSpec job_in_groups(Topology topology, std::int64_t rounds) {
  JobSpec spec = Cluster::small_job(rounds);
  change_sync(spec, [&](SyncSpec& sync) {
    sync.topology = topology;
    sync.codec = CodecKind::kFp32;
    sync.outer.momentum = 0.5;
  });
  return spec;
}

// The largest difference between two anchors of the same round.
double spread(Cluster& cluster, int hosts) {
  double most = 0;
  const auto first = cluster.host(0).trainers().front()->anchor();
  for (int i = 1; i < hosts; ++i) {
    const auto other = cluster.host(i).trainers().front()->anchor();
    for (std::size_t v = 0; v < first.size(); ++v) {
      most = std::max(most, static_cast<double>(std::abs(first[v] - other[v])));
    }
  }
  return most;
}

// Its plans are on their way, or there.
bool until_reducing(Cluster& cluster, RoundNumber number) {
  const auto reducing = [&] {
    const auto* round = cluster.job() ? cluster.round(number) : nullptr;
    return round != nullptr && round->state == coordinator::RoundState::kReducing;
  };
  return cluster.until(reducing) && cluster.until_somebody_reduces();
}

bool all_hold(Cluster& cluster, int hosts, RoundNumber round) {
  for (int i = 0; i < hosts; ++i) {
    const auto held = cluster.host(i).trainers().front()->held();
    if (!held || held->round != round) return false;
  }
  return true;
}

TEST(Groups, NineReplicasInAGridStayTogether) {
  Cluster cluster(9);
  cluster.submit(job_in_groups(Topology::kMoshpit, 40));
  ASSERT_TRUE(cluster.until([&] { return cluster.job() && all_hold(cluster, 9, 3); }));
  const double early = spread(cluster, 9);
  EXPECT_GT(early, 0.0);
  ASSERT_TRUE(cluster.until([&] { return all_hold(cluster, 9, 39); }, seconds(600)))
      << cluster.objection();
  EXPECT_LT(spread(cluster, 9), 3 * early);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.count(5, ContributionState::kCommitted), 9);
  EXPECT_EQ(cluster.job()->committed_tokens, Tokens(40 * 9 * 5 * 2 * 8));
}

TEST(Groups, RandomPairsOfFiveTrainToTheEnd) {
  Cluster cluster(5);  // one is alone in each round
  cluster.submit(job_in_groups(Topology::kGossip, 12));
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.count(5, ContributionState::kCommitted), 5);
}

// A frozen process is not known to be one for seconds; its group gives up long before.
TEST(Groups, AFrozenMemberDelaysItsGroupOnly) {
  Cluster cluster(4);
  cluster.submit(job_in_groups(Topology::kMoshpit, 20));
  ASSERT_TRUE(until_reducing(cluster, 3)) << cluster.objection();
  Trainer* frozen = cluster.reducing_trainer();
  frozen->pause();
  const Instant then = cluster.world().sim().now();
  ASSERT_TRUE(cluster.until_round(3, seconds(6))) << cluster.objection();
  EXPECT_LE((cluster.world().sim().now() - then).seconds(), 4.0);
  EXPECT_EQ(cluster.count(3, ContributionState::kCommitted), 2);
  EXPECT_EQ(cluster.count(3, ContributionState::kKept), 2);
  frozen->resume();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

// Weight 0, and it owns a part: the others' clip factors are none of its business.
TEST(Groups, AJoinerAveragesWithItsGroup) {
  Cluster cluster(4, 6);
  cluster.submit(job_in_groups(Topology::kGossip, 10));
  ASSERT_TRUE(cluster.until_round(2)) << cluster.objection();
  cluster.host(0).trainers().front()->kill(9);
  const auto somebody_follows = [&] {
    for (RoundNumber round = 3; round <= 10; ++round) {
      if (cluster.count(round, ContributionState::kFollowed) == 1) return true;
    }
    return false;
  };
  ASSERT_TRUE(cluster.until(somebody_follows)) << cluster.objection();
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

// At every moment of a reduce: the survivors end it, with all checkers watching.
TEST(Groups, AMemberThatDiesAtAnyMomentOfAReduceIsSurvived) {
  for (int moment = 0; moment < 24; ++moment) {
    Cluster cluster(4, static_cast<std::uint64_t>(moment + 1));
    cluster.submit(job_in_groups(moment % 2 == 0 ? Topology::kMoshpit : Topology::kGossip, 8));
    ASSERT_TRUE(until_reducing(cluster, 3)) << cluster.objection();
    cluster.pass(milliseconds(3 * moment));
    if (Trainer* victim = cluster.reducing_trainer()) victim->kill(9);
    ASSERT_TRUE(cluster.until_round(3, seconds(12))) << moment << cluster.objection();
    const int others = cluster.count(3, ContributionState::kCommitted) +
                       cluster.count(3, ContributionState::kKept);
    EXPECT_GE(others, 3) << moment;
    EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << moment << cluster.objection();
  }
}

TEST(Groups, TheCoordinatorDiesWhileAGroupHasGivenUp) {
  Cluster cluster(4);
  cluster.submit(job_in_groups(Topology::kMoshpit, 12));
  ASSERT_TRUE(until_reducing(cluster, 3)) << cluster.objection();
  cluster.reducing_trainer()->pause();
  const auto given_up = [&] {
    const auto* round = cluster.round(3);
    return round != nullptr && std::any_of(round->reduces.begin(), round->reduces.end(),
                                           [](const auto& group) { return group.given_up; });
  };
  ASSERT_TRUE(cluster.until(given_up, seconds(20))) << cluster.objection();
  cluster.coordinator().crash();
  cluster.pass(seconds(1));
  cluster.coordinator().boot();
  ASSERT_TRUE(cluster.until_round(5, seconds(240))) << cluster.objection();
  EXPECT_EQ(cluster.job()->epoch, 0);
  EXPECT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

}  // namespace
}  // namespace shoal::sim
