#include "coordinator/core/rounds/paces.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;

constexpr Instant kNow{1'700'000'000'000'000'000};

// Three replicas of one stage, on devices of 100, 200 and 300 GFLOP/s.
struct Paces : testing::Test {
  Paces() {
    state.jobs.put(job.id, job);
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
  std::vector<double> paces(const std::vector<ReplicaId>& of) const {
    return paces_of(state, kNow, job, of);
  }
  State state;
  JobRecord job;
  std::vector<ReplicaId> replicas;
};

TEST_F(Paces, AreThoseOfTheDevicesBeforeAnybodyHasReported) {
  EXPECT_THAT(paces(replicas), ElementsAre(1e11, 2e11, 3e11));
}

TEST_F(Paces, AreWhatWasSeen) {
  state.service[ReplicaId(1)].heard(milliseconds(20));
  state.service[ReplicaId(2)].heard(milliseconds(10));
  state.service[ReplicaId(3)].heard(milliseconds(100));
  EXPECT_THAT(paces(replicas), ElementsAre(50, 100, 10));
}

// 150 microbatches a second of 300 GFLOP/s: half a microbatch per GFLOP/s.
TEST_F(Paces, OfANewReplicaFollowItsDeviceBesideTheOthers) {
  state.service[ReplicaId(1)].heard(milliseconds(20));
  state.service[ReplicaId(2)].heard(milliseconds(10));
  EXPECT_THAT(paces(replicas), ElementsAre(50, 100, 150));
}

TEST_F(Paces, OfANewReplicaAreUnknownBesideDevicesThatWereNotMeasured) {
  state.agents.find(AgentId(1))->devices[0].gflops = 0;
  state.service[ReplicaId(1)].heard(milliseconds(20));
  EXPECT_THAT(paces({ReplicaId(1), ReplicaId(2)}), ElementsAre(50, 0));
}

// Its line carries 50 microbatches of 2 * 128 tokens and 512 bytes each in a second, of both stages
// of its host.
TEST_F(Paces, AreNoQuickerThanTheLine) {
  job.spec = small_job();
  job.spec.model.hidden = 256, job.spec.model.context = 128, job.spec.train.microbatch = 2;
  job.spec.swarm.activations = ActivationCodec::kBf16;
  job.stages.resize(2);
  for (const std::uint64_t n : {1, 2}) state.service[ReplicaId(n)].heard(milliseconds(10));
  LinkRecord link{.from = AgentId(2), .to = AgentId(1), .bytes_per_s = 256 * 512 * 50};
  link.measured_at = kNow;
  state.links.put({link.from, link.to}, link);
  state.replicas.at(ReplicaId(1)).agent = AgentId(3);
  EXPECT_THAT(paces({ReplicaId(1), ReplicaId(2)}), ElementsAre(100, testing::DoubleNear(50, 1e-6)));
}

}  // namespace
}  // namespace shoal::coordinator
