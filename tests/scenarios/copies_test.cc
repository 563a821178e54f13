// Stories about copies of stages: all hosts of a stage die for good, and no checkpoint has what it
// committed.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

using coordinator::JobPhase;

class Copied : public Cluster {
 public:
  explicit Copied(int hosts) : Cluster(hosts) {
    JobSpec spec = small_job(60);
    spec.model.layers = 2;
    spec.swarm.stages = 2;
    spec.swarm.min_replicas = 1;
    spec.swarm.max_replicas = 1;
    spec.checkpoint.buddies = 1;
    submit(spec);
  }

  std::set<int> hosts_of(StageIndex stage) {
    std::set<int> hosts;
    for (int i = 0; i < world().sim().options.hosts; ++i) {
      for (auto& trainer : host(i).trainers()) {
        if (trainer->held() && trainer->assignment().stage == stage) hosts.insert(i);
      }
    }
    return hosts;
  }
  bool is_copied(StageIndex stage) {
    const RoundKey committed{job()->id, job()->epoch, job()->committed_round};
    return std::ranges::any_of(world().copies(committed),
                               [&](const Census::Copy& copy) { return copy.stage == stage; });
  }
  bool until_copied(StageIndex stage, RoundNumber round) {
    return until([&] { return job() && job()->committed_round >= round && is_copied(stage); });
  }
  void lose(StageIndex stage) {
    for (const int index : hosts_of(stage)) host(index).crash(/*lose_disk=*/true);
  }
};

TEST(Copies, AStageThatIsLostForGoodGoesOnFromItsCopy) {
  Copied cluster(3);
  ASSERT_TRUE(cluster.until_copied(1, 4)) << cluster.objection();
  const RoundNumber committed = cluster.job()->committed_round;
  cluster.lose(1);
  ASSERT_TRUE(cluster.until_round(committed + 3)) << cluster.objection();
  EXPECT_EQ(cluster.job()->epoch, 0) << "nothing was given up";
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
}

TEST(Copies, OneStageAfterTheOtherIsLost) {
  Copied cluster(4);
  for (int i = 0; i < 4; ++i) {
    const StageIndex lost = i % 2;
    const RoundNumber next = cluster.job() == nullptr ? 3 : cluster.job()->committed_round + 2;
    ASSERT_TRUE(cluster.until_copied(lost, next)) << i << " " << cluster.objection();
    cluster.lose(lost);
  }
  ASSERT_TRUE(cluster.until_phase(JobPhase::kCompleted)) << cluster.objection();
  EXPECT_EQ(cluster.job()->epoch, 0);
}

TEST(Copies, TheCoordinatorDiesWithTheStage) {
  Copied cluster(3);
  ASSERT_TRUE(cluster.until_copied(1, 4)) << cluster.objection();
  const RoundNumber committed = cluster.job()->committed_round;
  cluster.lose(1);
  cluster.coordinator().crash();
  ASSERT_TRUE(cluster.until_round(committed + 3)) << cluster.objection();
  EXPECT_EQ(cluster.job()->epoch, 0) << "what copies hold is said again";
}

TEST(Copies, APausedJobKeepsWhatOnlyACopyHad) {
  Copied cluster(3);
  ASSERT_TRUE(cluster.until_copied(1, 4)) << cluster.objection();
  const RoundNumber committed = cluster.job()->committed_round;
  cluster.lose(1);
  cluster.pass(seconds(1));
  cluster.coordinator().pause(cluster.job()->id);
  ASSERT_TRUE(cluster.until_phase(JobPhase::kPaused)) << cluster.objection();
  EXPECT_GE(cluster.job()->committed_round, committed);
}

}  // namespace
}  // namespace shoal::sim
