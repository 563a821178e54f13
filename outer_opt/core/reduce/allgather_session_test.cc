// All-gathers of a few members in memory (session_test_util.h), and frames that do not belong.
#include "outer_opt/core/reduce/allgather_session.h"

#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kFrame = kSparseChunk;

ReducePlan make_gather(std::int64_t values, const std::vector<double>& weights) {
  ReducePlan plan = make_plan(CodecKind::kSparse2, values, weights);
  plan.topology = Topology::kAllgather;
  for (ReduceMember& member : plan.members) member.part_first = member.part_count = 0;
  return plan;
}

SessionSwarm make_swarm(const ReducePlan& plan, std::uint64_t seed) {
  return SessionSwarm(plan, kFrame, random_inputs(plan, seed));
}

TEST(Allgather, IsTheWeightedMeanOverThoseThatSent) {
  ReducePlan plan = make_gather(2 * kFrame + 100, {640, 1280, 0, 320});
  plan.members[1].clip_factor = 0.5;
  SessionSwarm swarm = make_swarm(plan, 3);
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  const auto n = static_cast<std::size_t>(plan.value_count);
  std::vector<double> sum(n), weight(n);
  for (const std::size_t i : {0u, 1u, 3u}) {
    std::vector<float> sent(n);
    ASSERT_TRUE(sparse2_decode(swarm.encoded[i], sent).ok());
    for (std::size_t v = 0; v < n; ++v) {
      const ReduceMember& m = plan.members[i];
      sum[v] += m.weight * m.clip_factor * static_cast<double>(sent[v]);
      weight[v] += sent[v] != 0 ? m.weight : 0;
    }
  }
  std::size_t shared = 0;
  for (std::size_t v = 0; v < n; ++v) {
    EXPECT_NEAR(swarm.averages[2][v], weight[v] > 0 ? sum[v] / weight[v] : 0, 1e-6);
    shared += weight[v] > 1280 && weight[v] != 1280 ? 1 : 0;
  }
  EXPECT_GT(shared, 0u);
}

TEST(Allgather, AnyOrderOfArrivalGivesTheSameBits) {
  for (std::size_t n = 1; n <= 5; ++n) {
    expect_same_bits_in_any_order(make_gather(3 * kFrame + 7, std::vector<double>(n, 100)), kFrame);
  }
}

TEST(Allgather, NobodyContributesAndNothingToAverage) {
  for (const std::int64_t values : {std::int64_t{0}, kFrame + 1}) {
    SessionSwarm swarm = make_swarm(make_gather(values, {0, 0}), 1);
    Prng prng(1);
    EXPECT_EQ(swarm.run(prng), 0);
    expect_all_done_and_equal(swarm);
    EXPECT_EQ(swarm.averages[0], std::vector<float>(static_cast<std::size_t>(values), 0.0f));
  }
}

TEST(Allgather, TheDigestIsOfEveryChunk) {
  expect_digest_of_every_chunk(make_gather(3 * kFrame, {1, 2, 0}), kFrame);
}

TEST(Allgather, TheSlowestOwesMostThenTookLeast) {
  SessionSwarm swarm = make_swarm(make_gather(2 * kFrame, {1, 1, 1}), 2);
  const ReduceSession& s = *swarm.sessions[0];
  EXPECT_EQ(s.slowest(), 1) << "the first of equals";
  ASSERT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.receive(1, 0, FrameKind::kContribution));
  EXPECT_EQ(s.slowest(), 2);
  for (int i = 0; i < 3; ++i) {
    for (const int from : {1, 2}) {
      swarm.send(from, 0, FrameKind::kContribution);
      swarm.receive(from, 0, FrameKind::kContribution);
    }
  }
  ASSERT_TRUE(s.received_all(1, FrameKind::kContribution));
  ASSERT_TRUE(s.received_all(2, FrameKind::kContribution));
  ASSERT_TRUE(swarm.send(0, 1, FrameKind::kContribution));
  EXPECT_EQ(s.slowest(), 2) << "it has taken nothing from us";
  Prng prng(1);
  swarm.run(prng);
  EXPECT_EQ(s.slowest(), -1);
}

// A member that contributes nothing waits for the others, and no member waits for it.
TEST(Allgather, WithoutAWeightThereIsNothingToTake) {
  SessionSwarm swarm = make_swarm(make_gather(kFrame, {1, 0}), 2);
  EXPECT_EQ(swarm.sessions[1]->slowest(), 0);
  ASSERT_TRUE(swarm.send(0, 1, FrameKind::kContribution));
  ASSERT_TRUE(swarm.receive(0, 1, FrameKind::kContribution));
  EXPECT_EQ(swarm.sessions[1]->slowest(), -1);
  EXPECT_EQ(swarm.sessions[0]->slowest(), -1);
}

TEST(Allgather, ADamagedFrameIsSeenAtAnyHop) {
  expect_damage_is_blamed(make_gather(3 * kFrame, {1, 2, 3}), kFrame);
}

TEST(Allgather, NobodyIsExcludedFromWhatIsDone) {
  SessionSwarm swarm = make_swarm(make_gather(2 * kFrame, {1, 2, 0}), 3);
  Prng prng(1);
  swarm.run(prng);
  for (const auto& session : swarm.sessions) EXPECT_TRUE(session->excluded().empty());
}

// Each member is killed after every possible number of hops. A survivor is done, with the average
// that everybody would have had, or broken and blames the dead one.
TEST(Allgather, LosingAnyMemberAtAnyMoment) {
  const ReducePlan plan = make_gather(3 * kFrame, {1, 2, 3});
  SessionSwarm whole = make_swarm(plan, 5);
  Prng any(1);
  whole.run(any);
  for (int victim = 0; victim < 3; ++victim) {
    int broken = 0, done = 0;
    for (int limit = 0;; ++limit) {
      SessionSwarm swarm = make_swarm(plan, 5);
      Prng prng(static_cast<std::uint64_t>(limit % 7));
      const int hops = swarm.run(prng, limit);
      swarm.kill(victim);
      swarm.run(prng);
      for (int i = 0; i < 3; ++i) {
        if (i == victim) continue;
        const ReduceSession& s = *swarm.sessions[i];
        if (s.state() == SessionState::kDone) {
          ++done;
          EXPECT_EQ(s.digest(), whole.sessions[0]->digest());
        } else if (s.state() == SessionState::kBroken) {
          ++broken;
          EXPECT_EQ(s.failure().failure, ReduceFailure::kPeerLost);
          EXPECT_EQ(s.failure().peer, victim);
        } else {
          // Waits for the other survivor, which gave up; its driver would say so.
          EXPECT_EQ(s.slowest(), 3 - victim - i);
        }
      }
      if (hops < limit) break;
    }
    EXPECT_GT(done, 0);
    EXPECT_GT(broken, 0);
  }
}

TEST(Allgather, FramesThatDoNotBelongBreakIt) {
  const auto broken_by = [](auto change) {
    SessionSwarm swarm = make_swarm(make_gather(2 * kFrame, {1, 1, 1}), 2);
    EXPECT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
    change(*swarm.wire[{1, 0, FrameKind::kContribution}]);
    swarm.receive(1, 0, FrameKind::kContribution);
    const ReduceSession& s = *swarm.sessions[0];
    return s.state() == SessionState::kBroken && s.failure().peer == 1 &&
           s.failure().failure == ReduceFailure::kBadFrame;
  };
  EXPECT_FALSE(broken_by([](Message&) {}));
  EXPECT_TRUE(broken_by([](Message& m) { m.header.chunk = 1; }));
  EXPECT_TRUE(broken_by([](Message& m) { m.header.part = 2; }));
  EXPECT_TRUE(broken_by([](Message& m) { m.header.kind = FrameKind::kAverage; }));
  EXPECT_TRUE(broken_by([](Message& m) { m.header.codec = CodecKind::kInt8; }));
  EXPECT_TRUE(broken_by([](Message& m) { m.payload[9] ^= std::byte{1}; }));  // the checksum
  EXPECT_TRUE(broken_by([](Message& m) {  // well hashed, but a codebook with an infinity
    m.payload[2] = std::byte{0x80}, m.payload[3] = std::byte{0x7f};
    const std::span<const std::byte> pieces[] = {m.payload};
    m.header.checksum = payload_checksum(pieces);
  }));
  SessionSwarm swarm = make_swarm(make_gather(kFrame, {1, 1}), 2);
  ASSERT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
  const FrameHeader again = swarm.wire[{1, 0, FrameKind::kContribution}]->header;
  ASSERT_TRUE(swarm.receive(1, 0, FrameKind::kContribution));
  EXPECT_FALSE(swarm.sessions[0]->admit(1, again));
  EXPECT_EQ(swarm.sessions[0]->state(), SessionState::kBroken);
}

TEST(Allgather, PlansThatDoNotFitAreRefused) {
  const ReducePlan good = make_gather(kFrame, {1, 1});
  const auto field = [&](auto change, std::int64_t frame_values = kFrame, std::size_t bytes = 84) {
    ReducePlan plan = good;
    change(plan);
    const std::vector<std::byte> encoded(bytes);
    const Status s =
        AllgatherSession::check(plan, ReplicaId(10), frame_values, {{}, encoded}, kFrame);
    return s.ok() ? std::string() : s.error().field;
  };
  EXPECT_EQ(field([](ReducePlan&) {}), "");
  EXPECT_EQ(field([](ReducePlan& p) { p.topology = Topology::kButterfly; }), "topology");
  EXPECT_EQ(field([](ReducePlan& p) { p.codec = CodecKind::kInt4; }), "codec");
  EXPECT_EQ(field([](ReducePlan& p) { p.aggregator = Aggregator::kTrimmedMean; }), "aggregator");
  EXPECT_EQ(field([](ReducePlan& p) { p.value_count = 1; }), "value_count");
  EXPECT_EQ(field([](ReducePlan& p) { p.members[1].part_count = 4; }), "members.part_count");
  EXPECT_EQ(field([](ReducePlan& p) { p.members[1].address = ""; }), "members.address");
  EXPECT_EQ(field([](ReducePlan& p) { p.members[1].weight = NAN; }), "members.weight");
  EXPECT_EQ(field([](ReducePlan& p) { p.members[1].replica = ReplicaId(10); }), "members");
  EXPECT_EQ(field([](ReducePlan&) {}, 100), "frame_values");
  EXPECT_EQ(field([](ReducePlan&) {}, kFrame, 0), "members.weight");
  EXPECT_EQ(field([](ReducePlan& p) { p.members[0].weight = 0; }, kFrame, 0), "");
}

}  // namespace
}  // namespace shoal::outer_opt
