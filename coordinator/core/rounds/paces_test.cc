#include "coordinator/core/rounds/paces.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;

// Three replicas of one stage, on devices of 100, 200 and 300 GFLOP/s.
struct Paces : testing::Test {
  Paces() {
    for (std::uint64_t n = 1; n <= 3; ++n) {
      AgentRecord agent;
      agent.id = AgentId(n);
      agent.devices = {{.index = 0, .gflops = 100.0 * static_cast<double>(n)}};
      state.agents.put(agent.id, agent);
      ReplicaRecord replica;
      replica.id = ReplicaId(n);
      replica.agent = agent.id;
      state.replicas.put(replica.id, replica);
      replicas.push_back(replica.id);
    }
  }
  State state;
  std::vector<ReplicaId> replicas;
};

TEST_F(Paces, AreThoseOfTheDevicesBeforeAnybodyHasReported) {
  EXPECT_THAT(paces_of(state, replicas), ElementsAre(1e11, 2e11, 3e11));
}

TEST_F(Paces, AreWhatWasSeen) {
  state.service[ReplicaId(1)].heard(milliseconds(20));
  state.service[ReplicaId(2)].heard(milliseconds(10));
  state.service[ReplicaId(3)].heard(milliseconds(100));
  EXPECT_THAT(paces_of(state, replicas), ElementsAre(50, 100, 10));
}

// 150 microbatches a second of 300 GFLOP/s: half a microbatch per GFLOP/s.
TEST_F(Paces, OfANewReplicaFollowItsDeviceBesideTheOthers) {
  state.service[ReplicaId(1)].heard(milliseconds(20));
  state.service[ReplicaId(2)].heard(milliseconds(10));
  EXPECT_THAT(paces_of(state, replicas), ElementsAre(50, 100, 150));
}

TEST_F(Paces, OfANewReplicaAreUnknownBesideDevicesThatWereNotMeasured) {
  state.agents.find(AgentId(1))->devices[0].gflops = 0;
  state.service[ReplicaId(1)].heard(milliseconds(20));
  EXPECT_THAT(paces_of(state, {ReplicaId(1), ReplicaId(2)}), ElementsAre(50, 0));
}

}  // namespace
}  // namespace shoal::coordinator
