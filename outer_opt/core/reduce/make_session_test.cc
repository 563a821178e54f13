// What holds for every topology: the systematic sweep that kills each member at every boundary
// between two messages, and that a plan is answered with its own session.
#include "outer_opt/core/reduce/make_session.h"

#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

struct Kind {
  const char* name;
  Topology topology;
  CodecKind codec;
  std::int64_t values, frame_values;
};

constexpr Kind kKinds[] = {
    {"butterfly_fp32", Topology::kButterfly, CodecKind::kFp32, 96, 8},
    {"butterfly_int8", Topology::kButterfly, CodecKind::kInt8, 96, 8},
    {"allgather_sparse2", Topology::kAllgather, CodecKind::kSparse2, 3 * kSparseChunk,
     kSparseChunk},
    {"ring_fp32", Topology::kRing, CodecKind::kFp32, 96, 8},
    {"ring_int4", Topology::kRing, CodecKind::kInt4, 96, 8},
    {"param_server_fp32", Topology::kParamServer, CodecKind::kFp32, 96, 8},
    {"param_server_int8", Topology::kParamServer, CodecKind::kInt8, 96, 8},
};

ReducePlan plan_of(const Kind& kind, const std::vector<double>& weights) {
  ReducePlan plan = make_plan(kind.codec, kind.values, weights);
  plan.topology = kind.topology;
  if (kind.topology == Topology::kParamServer) return with_reducers(std::move(plan), 1);
  if (kind.topology != Topology::kAllgather) return plan;
  for (ReduceMember& member : plan.members) member.part_first = member.part_count = 0;
  return plan;
}

class EverySession : public testing::TestWithParam<Kind> {};

// After the loss nothing may hang: a survivor is done with the bits that the whole group would have
// had, or with the bits of all survivors that are done, or broken for a reason.
TEST_P(EverySession, LosesAnyMemberAtEveryMessageBoundary) {
  for (const std::vector<double>& weights : {std::vector<double>{1, 2, 3, 4}, {1, 0, 3, 1}}) {
    const ReducePlan plan = plan_of(GetParam(), weights);
    const auto inputs = random_inputs(plan, 5);
    for (int victim = 0; victim < 4; ++victim) {
      int broken = 0, done = 0;
      for (int boundary = 0;; ++boundary) {
        SessionSwarm swarm(plan, GetParam().frame_values, inputs);
        Prng prng(static_cast<std::uint64_t>(boundary) % 5);
        const int hops = swarm.run(prng, boundary);
        swarm.kill(victim);
        swarm.run(prng);
        swarm.spread_failures();
        std::optional<Digest> digest;
        for (int i = 0; i < 4; ++i) {
          if (i == victim) continue;
          const ReduceSession& s = *swarm.sessions[i];
          ASSERT_NE(s.state(), SessionState::kRunning) << "victim " << victim << " at " << boundary;
          if (s.state() == SessionState::kBroken) {
            ++broken;
            EXPECT_EQ(s.failure().failure, ReduceFailure::kPeerLost);
            EXPECT_EQ(s.failure().peer, victim);
            continue;
          }
          if (plan.members[i].reducer) continue;
          ++done;
          if (!digest) digest = s.digest();
          EXPECT_EQ(s.digest(), *digest);
        }
        if (hops < boundary) break;
      }
      EXPECT_GT(done, 0);
      // A member with nothing to give is missed only if it passes on what others gave.
      const bool spared = GetParam().topology == Topology::kAllgather && weights[victim] == 0;
      EXPECT_EQ(broken == 0, spared);
    }
  }
}

TEST_P(EverySession, AnswersAPlanWithItsOwnTopology) {
  const ReducePlan plan = plan_of(GetParam(), {1, 1, 1});
  SessionSwarm swarm(plan, GetParam().frame_values, random_inputs(plan, 1));
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  EXPECT_EQ(swarm.sessions[0]->plan().topology, GetParam().topology);
  // It dials the members that it sends contributions to.
  EXPECT_EQ(swarm.sessions[0]->dials(0, 2), GetParam().topology != Topology::kRing);
}

INSTANTIATE_TEST_SUITE_P(All, EverySession, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MakeSession, RefusesAPlanThatLeavesTheTopologyOpen) {
  ReducePlan plan = make_plan(CodecKind::kFp32, 4, {1, 1});
  plan.topology = Topology::kAuto;
  std::vector<float> input(4), average(4);
  const auto session = make_session(plan, ReplicaId(10), 2, {input, {}}, average);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().field, "topology");
}

}  // namespace
}  // namespace shoal::outer_opt
