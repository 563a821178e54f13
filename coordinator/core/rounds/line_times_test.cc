#include "coordinator/core/rounds/line_times.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/state/measured_lines.h"

namespace shoal::coordinator {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr Instant kNow{1'700'000'000'000'000'000};

// Stages 0, 1 and 2 are served by rep_1 of agt_1, rep_2 of agt_2 and rep_3 of agt_3. A microbatch
// of 2 sequences of 128 tokens is 256 * 512 bytes of fp16 activations of width 256.
struct LineTimes : testing::Test {
  LineTimes() {
    job.spec = small_job();
    job.spec.model.hidden = 256, job.spec.model.context = 128, job.spec.model.layers = 3;
    job.spec.train.microbatch = 2;
    job.spec.swarm.activations = ActivationCodec::kBf16;
    job.stages.resize(3);
    for (std::uint64_t n = 1; n <= 3; ++n) {
      ReplicaRecord replica;
      replica.id = ReplicaId(n), replica.agent = AgentId(n);
      replica.stage = static_cast<StageIndex>(n) - 1;
      state.replicas.put(replica.id, replica);
      replicas.push_back(replica.id);
      measured(n, n % 3 + 1, 1e6);
    }
  }
  void measured(std::uint64_t from, std::uint64_t to, double bytes_per_s) {
    LinkRecord link;
    link.from = AgentId(from), link.to = AgentId(to);
    link.bytes_per_s = bytes_per_s;
    link.measured_at = link.reached_at = kNow;
    state.links.put({link.from, link.to}, link);
  }
  std::vector<Duration> times(Instant now = kNow) { return line_times(state, now, job, replicas); }

  State state;
  JobRecord job;
  std::vector<ReplicaId> replicas;
};

TEST_F(LineTimes, AreTheBytesOfAMicrobatchOverTheSlowerDirection) {
  measured(3, 1, 5e5);
  EXPECT_THAT(times(), ElementsAre(seconds_f(256 * 512 / 5e5), seconds_f(2 * 256 * 512 / 1e6),
                                   seconds_f(256 * 512 / 5e5)))
      << "an inner stage sends each microbatch on and its gradient back";
}

TEST_F(LineTimes, OfReplicasOfOneHostShareItsLine) {
  state.replicas.at(ReplicaId(3)).agent = AgentId(1);
  EXPECT_EQ(times()[0], seconds_f(2 * 256 * 512 / 1e6));
}

TEST_F(LineTimes, AreNotKnownWithoutAFreshProbe) {
  EXPECT_THAT(times(kNow + kLinkFresh + seconds(1)), Each(Duration{}));
  for (auto& [key, link] : state.links) link.at_least = true;
  EXPECT_THAT(times(), Each(Duration{})) << "traffic shows a lower bound";
}

TEST_F(LineTimes, AreThoseToTheCoordinatorUntilPeersHaveMeasured) {
  state.links = {};
  for (std::uint64_t n = 1; n <= 3; ++n) {
    AgentRecord agent{.id = AgentId(n), .host = n == 3 ? "far" : "near"};
    agent.line = {.up = 5e5, .down = 1e6, .measured_at = kNow};
    state.agents.put(agent.id, agent);
  }
  EXPECT_THAT(times(), ElementsAre(Duration{}, Duration{}, seconds_f(256 * 512 / 5e5)))
      << "two agents share a host, and reach each other without its line";
  measured(1, 2, 1e6);
  EXPECT_EQ(times()[0], seconds_f(256 * 512 / 1e6));
}

TEST_F(LineTimes, OfAProgramAreNotKnown) {
  job.spec.trainer.kind = TrainerKind::kPython;
  EXPECT_THAT(times(), Each(Duration{}));
}

}  // namespace
}  // namespace shoal::coordinator
