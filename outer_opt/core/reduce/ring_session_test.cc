// Rings of a few members in memory (session_test_util.h), and frames that do not belong.
#include "outer_opt/core/reduce/ring_session.h"

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/codec_test_util.h"
#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

ReducePlan make_ring(CodecKind codec, std::int64_t values, const std::vector<double>& weights) {
  ReducePlan plan = make_plan(codec, values, weights);
  plan.topology = Topology::kRing;
  return plan;
}

TEST(Ring, SmallIntegersAveragedExactly) {
  for (const CodecKind codec : kDenseCodecs) {
    ReducePlan plan = make_ring(codec, 6, {1, 1, 2});
    plan.members[2].clip_factor = 0.5;
    // Every sum on the way has the block's largest value first, of which the others are magnitudes:
    // (a + b + c / 2 * 2) / 4.
    const float top = exact_top(codec);
    const std::vector<float> a{top, 0, top, 0, top, 0};
    const std::vector<float> c{2 * top, 0, 2 * top, 0, 2 * top, 0};
    SessionSwarm swarm(plan, 2, {a, a, c});
    Prng prng(1);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    EXPECT_EQ(swarm.averages[0], a);
  }
}

TEST(Ring, TheDigestIsOfEveryChunk) {
  for (const CodecKind codec : kDenseCodecs) {
    expect_digest_of_every_chunk(make_ring(codec, 500, {1, 2, 0}), 64);
  }
}

TEST(Ring, ADamagedFrameIsSeenAtAnyHop) {
  for (const CodecKind codec : kDenseCodecs) {
    expect_damage_is_blamed(make_ring(codec, 96, {1, 2, 3}), 16);
  }
}

TEST(Ring, IsTheWeightedMean) {
  for (const CodecKind codec : kDenseCodecs) {
    const ReducePlan plan = make_ring(codec, 500, {640, 1280, 320, 0, 640});
    SessionSwarm swarm(plan, 40, random_inputs(plan, 3));
    Prng prng(2);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    // Rounded by every hop; no sum on the way is beyond 5 + 2.5.
    const double bound = outer_opt::codec(codec).error_bound();
    const double tolerance = 1e-6 + 5 * 7.5 * bound / (2880.0 / 1280);
    for (std::int64_t v = 0; v < 500; ++v) {
      double exact = 0;
      for (std::size_t i = 0; i < 5; ++i) {
        if (i != 3) exact += plan.members[i].weight * swarm.inputs[i][v] / 2880.0;
      }
      EXPECT_NEAR(swarm.averages[3][v], exact, tolerance);
    }
  }
}

// With three members, 0 gets sums from 2 and averages from 1, two chunks of each.
TEST(Ring, TheSlowestOfTwoNeighborsOwesMore) {
  const ReducePlan plan = make_ring(CodecKind::kFp32, 3, {1, 1, 1});
  SessionSwarm swarm(plan, 1, random_inputs(plan, 3));
  const ReduceSession& s = *swarm.sessions[0];
  EXPECT_EQ(s.slowest(), 2) << "no average comes before its sum";
  ASSERT_TRUE(swarm.send(2, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.receive(2, 0, FrameKind::kContribution));
  EXPECT_EQ(s.slowest(), 1);
  Prng prng(1);
  while (s.frames_left(1, FrameKind::kAverage) + s.frames_left(2, FrameKind::kContribution) > 0) {
    ASSERT_GT(swarm.run(prng, 1), 0);
  }
  swarm.run(prng);
  EXPECT_EQ(s.slowest(), -1);
  for (const auto& session : swarm.sessions) EXPECT_TRUE(session->excluded().empty());
}

TEST(Ring, AnyOrderOfArrivalGivesTheSameBits) {
  for (const CodecKind codec : kDenseCodecs) {
    for (std::size_t n = 1; n <= 5; ++n) {
      expect_same_bits_in_any_order(make_ring(codec, 1003, unequal_weights(n)), 64);
    }
  }
}

TEST(Ring, FewValuesAndEmptyParts) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8}) {
    for (const std::int64_t values : {0, 1, 2, 3, 5, 300}) {
      const ReducePlan plan = make_ring(codec, values, {1, 2, 0, 4});
      SessionSwarm swarm(plan, 32, random_inputs(plan, static_cast<std::uint64_t>(values) + 1));
      Prng prng(static_cast<std::uint64_t>(values));
      swarm.run(prng);
      expect_all_done_and_equal(swarm);
    }
  }
}

TEST(Ring, NobodyContributesGivesZeros) {
  SessionSwarm swarm(make_ring(CodecKind::kInt8, 100, {0, 0, 0}), 16, {{}, {}, {}});
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  EXPECT_EQ(swarm.averages[2], std::vector<float>(100, 0.0f));
}

TEST(Ring, SpeaksToItsNeighborsOnly) {
  SessionSwarm swarm(make_ring(CodecKind::kFp32, 64, {1, 1, 1, 1}), 8,
                     random_inputs(make_ring(CodecKind::kFp32, 64, {1, 1, 1, 1}), 1));
  const ReduceSession& s = *swarm.sessions[1];
  for (int peer = 0; peer < 4; ++peer) {
    EXPECT_EQ(s.dials(1, peer), peer == 2);
    EXPECT_EQ(s.sent_all(peer, FrameKind::kContribution), peer != 2);
    EXPECT_EQ(s.sent_all(peer, FrameKind::kAverage), peer != 0);
    EXPECT_EQ(s.received_all(peer, FrameKind::kContribution), peer != 0);
    EXPECT_EQ(s.received_all(peer, FrameKind::kAverage), peer != 2);
  }
  swarm.sessions[1]->peer_lost(3, "not a neighbor");
  EXPECT_EQ(s.state(), SessionState::kRunning);
  swarm.sessions[1]->peer_lost(0, "the one before");
  EXPECT_EQ(s.state(), SessionState::kBroken);
  EXPECT_EQ(s.failure().peer, 0);
}

TEST(Ring, FramesThatDoNotBelongBreakIt) {
  const auto broken_by = [](FrameKind kind, int from, auto change) {
    const ReducePlan plan = make_ring(CodecKind::kInt8, 24, {1, 1, 1});
    SessionSwarm swarm(plan, 4, random_inputs(plan, 2));
    const auto frame = swarm.sessions[2]->next_frame(0, FrameKind::kContribution);
    std::vector<std::byte> payload(swarm.sessions[2]->payload_size(*frame));
    swarm.sessions[2]->encode(*frame, payload);
    FrameHeader header = swarm.sessions[2]->header(*frame, payload);
    header.kind = kind;
    change(header);
    const std::span<const std::byte> pieces[] = {payload};
    ReduceSession& s = *swarm.sessions[0];
    if (const auto work = s.admit(from, header)) s.finish(*work, s.run(*work, pieces));
    return s.state() == SessionState::kBroken && s.failure().peer == from &&
           s.failure().failure == ReduceFailure::kBadFrame;
  };
  constexpr auto kSum = FrameKind::kContribution;
  EXPECT_FALSE(broken_by(kSum, 2, [](FrameHeader&) {}));
  EXPECT_TRUE(broken_by(kSum, 1, [](FrameHeader&) {}));  // sums come from the one before
  EXPECT_TRUE(broken_by(kSum, 2, [](FrameHeader& h) { h.chunk = 1; }));
  EXPECT_TRUE(broken_by(kSum, 2, [](FrameHeader& h) { h.part = 0; }));
  EXPECT_TRUE(broken_by(kSum, 2, [](FrameHeader& h) { h.codec = CodecKind::kFp32; }));
  EXPECT_TRUE(broken_by(kSum, 2, [](FrameHeader& h) { h.checksum ^= 1; }));
  // The average of a chunk of which no sum was sent.
  EXPECT_TRUE(broken_by(FrameKind::kAverage, 1, [](FrameHeader& h) { h.part = 1, h.first = 8; }));
}

TEST(Ring, OverflowIsNobodysFrame) {
  const float max = 3e38f;
  SessionSwarm swarm(make_ring(CodecKind::kFp32, 1, {1, 1}), 8, {{max}, {max}});
  Prng prng(1);
  swarm.run(prng);
  ASSERT_EQ(swarm.sessions[0]->state(), SessionState::kBroken);
  EXPECT_EQ(swarm.sessions[0]->failure().failure, ReduceFailure::kInternal);
}

TEST(Ring, PlansThatDoNotFitAreRefused) {
  const ReducePlan good = make_ring(CodecKind::kFp32, 10, {1, 1});
  const std::vector<float> input(10);
  const auto field = [&](auto change) {
    ReducePlan plan = good;
    change(plan);
    const Status s = RingSession::check(plan, ReplicaId(10), 4, {input, {}}, 10);
    return s.ok() ? std::string() : s.error().field;
  };
  EXPECT_EQ(field([](ReducePlan&) {}), "");
  EXPECT_EQ(field([](ReducePlan& p) { p.topology = Topology::kButterfly; }), "topology");
  EXPECT_EQ(field([](ReducePlan& p) { p.codec = CodecKind::kSparse2; }), "codec");
  EXPECT_EQ(field([](ReducePlan& p) { p.value_count = 1; }), "value_count");
  EXPECT_EQ(field([](ReducePlan& p) { p.members[1].part_first = 4; }), "members.part_first");
}

}  // namespace
}  // namespace shoal::outer_opt
