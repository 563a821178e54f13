// A story about a device that becomes slow in the middle of a pipeline's work.
#include <gtest/gtest.h>

#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

class Pipelined : public Cluster {
 public:
  Pipelined() : Cluster(2) {
    JobSpec spec = small_job(400);
    spec.model.layers = spec.swarm.stages = 2;
    spec.swarm.min_replicas = spec.swarm.max_replicas = 1;
    submit(spec);
  }
  bool until_told(const std::string& event) {
    return until([&] { return world().sim().transitions["event " + event] > 0; }, seconds(300));
  }
};

TEST(SlowDevice, IsToldAndTheEndOfItToo) {
  Pipelined cluster;
  ASSERT_TRUE(cluster.until_round(10)) << cluster.objection();
  cluster.host(1).throttle(0, 0.1, cluster.world().sim().now() + seconds(3600));
  ASSERT_TRUE(cluster.until_told("replica_slow")) << cluster.objection();
  EXPECT_EQ(cluster.world().sim().transitions["event replica_as_promised"], 0);
  cluster.host(1).end_throttling();
  ASSERT_TRUE(cluster.until_told("replica_as_promised")) << cluster.objection();
}

}  // namespace
}  // namespace shoal::sim
