// Butterflies of a few members in memory (session_test_util.h).
#include "outer_opt/core/reduce/butterfly_session.h"

#include <cfloat>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/codec_test_util.h"
#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

TEST(Butterfly, SmallIntegersAveragedExactly) {
  for (const CodecKind codec : kDenseCodecs) {
    ReducePlan plan = make_plan(codec, 6, {1, 1, 2});
    plan.members[2].clip_factor = 0.5;
    // (1*a + 1*b + 2*0.5*c) / 4; the largest value of each part of two gives an exact scale, of
    // which the other one is a magnitude.
    const float top = exact_top(codec);
    SessionSwarm swarm(
        plan, 2,
        {{top, 4, top, 4, top, 4}, {top, 0, top, 0, top, 0}, {2 * top, 4, 2 * top, 4, 2 * top, 4}});
    Prng prng(1);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    EXPECT_EQ(swarm.averages[0], (std::vector<float>{top, 2, top, 2, top, 2}));
  }
}

TEST(Butterfly, AnyOrderOfArrivalGivesTheSameBits) {
  for (const CodecKind codec : kDenseCodecs) {
    for (std::size_t n = 1; n <= 5; ++n) {
      expect_same_bits_in_any_order(make_plan(codec, 1003, unequal_weights(n)), 64);
    }
  }
}

TEST(Butterfly, TheDigestIsOfEveryChunk) {
  for (const CodecKind codec : kDenseCodecs) {
    expect_digest_of_every_chunk(make_plan(codec, 500, {1, 2, 0}), 64);
  }
}

TEST(Butterfly, ADamagedFrameIsSeenAtAnyHop) {
  for (const CodecKind codec : kDenseCodecs) {
    expect_damage_is_blamed(make_plan(codec, 96, {1, 2, 3}), 16);
  }
}

TEST(Butterfly, IsTheWeightedMean) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 500, {640, 1280, 320});
  SessionSwarm swarm(plan, 100, random_inputs(plan, 3));
  Prng prng(2);
  swarm.run(prng);
  for (std::int64_t v = 0; v < 500; ++v) {
    const double exact =
        (640.0 * swarm.inputs[0][v] + 1280.0 * swarm.inputs[1][v] + 320.0 * swarm.inputs[2][v]) /
        2240.0;
    EXPECT_NEAR(swarm.averages[1][v], exact, 1e-6);
  }
}

TEST(Butterfly, UnevenPartsEmptyPartsAndFewValues) {
  const std::vector<std::vector<double>> shares = {
      {1, 5, 0, 2}, {0, 0, 0, 1}, {1, 1, 1, 1}, {3, 0, 3, 0}};
  for (const CodecKind codec : kDenseCodecs) {
    for (const auto& share : shares) {
      for (const std::int64_t values : {0, 1, 2, 3, 5, 300, 1024}) {
        const ReducePlan plan = make_plan(codec, values, {1, 2, 0, 4}, share);
        SessionSwarm swarm(plan, 32, random_inputs(plan, values + 1));
        Prng prng(values);
        swarm.run(prng);
        expect_all_done_and_equal(swarm);
      }
    }
  }
}

TEST(Butterfly, NobodyContributesGivesZeros) {
  for (const CodecKind codec : kDenseCodecs) {
    const ReducePlan plan = make_plan(codec, 100, {0, 0, 0});
    SessionSwarm swarm(plan, 16, {{}, {}, {}});
    Prng prng(1);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    EXPECT_EQ(swarm.averages[2], std::vector<float>(100, 0.0f));
  }
}

// 3 members, 4 chunks per part; each is killed after every possible number of hops. The survivors
// are done with equal bits, or broken and blame the dead one; nobody hangs half-way.
TEST(Butterfly, LosingAnyMemberAtAnyMoment) {
  for (const CodecKind codec : kDenseCodecs) {
    for (const bool owner : {true, false}) {
      const ReducePlan plan =
          make_plan(codec, 96, {1, 2, 3},
                    owner ? std::vector<double>{1, 1, 1} : std::vector<double>{1, 1, 0});
      const auto inputs = random_inputs(plan, 5);
      for (int victim = 0; victim < 3; ++victim) {
        int hops = 0, broken = 0, done = 0, excluded = 0;
        for (int limit = 0;; ++limit) {
          SessionSwarm swarm(plan, 8, inputs);
          Prng prng(limit % 7);
          hops = swarm.run(prng, limit);
          swarm.kill(victim);
          swarm.run(prng);
          swarm.spread_failures();
          for (int i = 0; i < 3; ++i) {
            if (i == victim) continue;
            const ReduceSession& s = *swarm.sessions[i];
            ASSERT_NE(s.state(), SessionState::kRunning)
                << "victim " << victim << " after " << limit;
            if (s.state() == SessionState::kDone) {
              ++done;
              excluded += !s.excluded().empty();
              EXPECT_TRUE(s.excluded().empty() ||
                          swarm.sessions[victim]->state() != SessionState::kDone)
                  << "a member that has the whole average was excluded by nobody";
            } else {
              ++broken;
              EXPECT_EQ(s.failure().failure, ReduceFailure::kPeerLost);
              EXPECT_EQ(s.failure().peer, victim);
            }
          }
          if (plan.members[victim].part_count == 0) expect_all_done_and_equal(swarm);
          if (hops < limit) break;
        }
        EXPECT_GT(hops, 40);
        EXPECT_GT(done, 0);
        EXPECT_EQ(broken > 0, plan.members[victim].part_count > 0);
        EXPECT_EQ(excluded > 0, plan.members[victim].part_count == 0);
      }
    }
  }
}

TEST(Butterfly, LostSenderIsExcludedFromWhatItHadNotSent) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 4, {1, 1, 2}, {1, 0, 0});
  SessionSwarm swarm(plan, 2, {{4, 4, 4, 4}, {8, 8, 8, 8}, {2, 2, 2, 2}});
  ASSERT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.receive(1, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.send(2, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.receive(2, 0, FrameKind::kContribution));
  swarm.kill(2);
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  EXPECT_EQ(swarm.averages[0], (std::vector<float>{4, 4, 6, 6}));  // (4+8+2*2)/4, then (4+8)/2
  EXPECT_EQ(swarm.sessions[0]->excluded(), std::vector{plan.members[2].replica});
  EXPECT_TRUE(swarm.sessions[1]->excluded().empty()) << "it owns no part";
}

TEST(Butterfly, LostSenderThatDeliveredAllIsNotExcluded) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1, 2}, {1, 0, 0});
  SessionSwarm swarm(plan, 2, {{4, 4}, {8, 8}, {2, 2}});
  for (const int sender : {1, 2}) {
    ASSERT_TRUE(swarm.send(sender, 0, FrameKind::kContribution));
    ASSERT_TRUE(swarm.receive(sender, 0, FrameKind::kContribution));
  }
  swarm.kill(2);
  Prng prng(1);
  swarm.run(prng);
  EXPECT_EQ(swarm.averages[1], (std::vector<float>{4, 4}));
  EXPECT_TRUE(swarm.sessions[0]->excluded().empty());
}

// A member that has everything but owes an average is asked for it, regardless of other losses.
TEST(Butterfly, IsNotDoneWhileAnAverageIsDue) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1, 1}, {1, 0, 0});
  SessionSwarm swarm(plan, 2, {{4, 4}, {8, 8}, {3, 3}});
  for (const int sender : {1, 2}) {
    ASSERT_TRUE(swarm.send(sender, 0, FrameKind::kContribution));
    ASSERT_TRUE(swarm.receive(sender, 0, FrameKind::kContribution));
  }
  swarm.kill(1);
  EXPECT_EQ(swarm.sessions[0]->state(), SessionState::kRunning);
  EXPECT_EQ(swarm.sessions[0]->slowest(), 2);
  ASSERT_TRUE(swarm.send(0, 2, FrameKind::kAverage));
  EXPECT_EQ(swarm.sessions[0]->state(), SessionState::kDone);
  EXPECT_EQ(swarm.sessions[0]->slowest(), -1);
}

// Three members with two chunks each: four frames are due from either of the others.
TEST(Butterfly, TheSlowestHasSentTheSmallestShareOfWhatItOwes) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 12, {1, 1, 1});
  SessionSwarm swarm(plan, 2, random_inputs(plan, 1));
  const ReduceSession& s = *swarm.sessions[0];
  const auto deliver = [&](int from, int to, FrameKind kind) {
    ASSERT_TRUE(swarm.send(from, to, kind));
    ASSERT_TRUE(swarm.receive(from, to, kind));
  };
  EXPECT_EQ(s.slowest(), 1) << "the first of equals";
  deliver(1, 0, FrameKind::kContribution);
  EXPECT_EQ(s.slowest(), 2);
  deliver(2, 0, FrameKind::kContribution);
  EXPECT_EQ(s.slowest(), 1);
  deliver(1, 0, FrameKind::kContribution);
  EXPECT_EQ(s.slowest(), 2) << "1 sent two of four, 2 one of them";
  Prng prng(1);
  swarm.run(prng);
  EXPECT_EQ(s.slowest(), -1) << "nobody is behind";
}

// A member without a weight owes its averages only.
TEST(Butterfly, TheSlowestOweWhatTheirWeightSays) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 12, {1, 0, 1});
  SessionSwarm swarm(plan, 2, random_inputs(plan, 1));
  Prng prng(1);
  const ReduceSession& s = *swarm.sessions[0];
  for (int hop = 0; s.slowest() != -1; ++hop) {
    ASSERT_LT(hop, 200) << "somebody stays behind forever";
    swarm.run(prng, 1);
  }
  EXPECT_EQ(s.state(), SessionState::kDone);
}

TEST(Butterfly, AnOwnValueThatIsNotFiniteIsNobodysFrame) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 0}, {1, 0});
  SessionSwarm swarm(plan, 2, {{1, NAN}, {}});
  ASSERT_EQ(swarm.sessions[0]->state(), SessionState::kBroken);
  EXPECT_EQ(swarm.sessions[0]->failure().failure, ReduceFailure::kInternal);
  EXPECT_EQ(swarm.sessions[0]->failure().peer, -1);
}

// A frame that was under way when its sender was lost breaks nothing.
TEST(Butterfly, AFrameOfALostMemberIsNoNews) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1, 1}, {1, 0, 0});
  SessionSwarm swarm(plan, 2, {{4, 4}, {8, 8}, {3, 3}});
  ASSERT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
  const FrameHeader late = swarm.wire[{1, 0, FrameKind::kContribution}]->header;
  swarm.kill(1);
  EXPECT_FALSE(swarm.sessions[0]->admit(1, late));
  Prng prng(1);
  swarm.run(prng);
  EXPECT_EQ(swarm.sessions[0]->state(), SessionState::kDone);
  EXPECT_EQ(swarm.averages[0], (std::vector<float>{3.5f, 3.5f}));
}

TEST(Butterfly, FramesWaitForTheirTurn) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1, 1}, {1, 0, 0});
  SessionSwarm swarm(plan, 8, {{1, 1}, {2, 2}, {3, 3}});
  ASSERT_TRUE(swarm.send(2, 0, FrameKind::kContribution));
  EXPECT_FALSE(swarm.receive(2, 0, FrameKind::kContribution));  // member 1 comes first
  EXPECT_EQ(swarm.sessions[0]->state(), SessionState::kRunning);
  ASSERT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
  EXPECT_TRUE(swarm.receive(1, 0, FrameKind::kContribution));
  EXPECT_TRUE(swarm.receive(2, 0, FrameKind::kContribution));
}

TEST(Butterfly, OverflowOfTheAverageIsNobodysFrame) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1}, {1, 0});
  const float max = 3e38f;
  SessionSwarm swarm(plan, 8, {{max, max}, {max, max}});
  Prng prng(1);
  swarm.run(prng);
  ASSERT_EQ(swarm.sessions[0]->state(), SessionState::kBroken);
  EXPECT_EQ(swarm.sessions[0]->failure().failure, ReduceFailure::kInternal);
}

TEST(Butterfly, RefusesPlansThatDoNotFit) {
  const ReducePlan good = make_plan(CodecKind::kFp32, 10, {1, 1});
  const auto refused = [&](auto change, std::size_t pg = 10, std::size_t avg = 10) {
    ReducePlan plan = good;
    change(plan);
    const std::vector<float> input(pg);
    return !ButterflySession::check(plan, ReplicaId(10), 4, {input, {}}, avg).ok();
  };
  EXPECT_FALSE(refused([](ReducePlan&) {}));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.topology = Topology::kAllgather; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.codec = CodecKind::kSparse2; }));
  EXPECT_TRUE(refused([](ReducePlan&) {}, 0));
  EXPECT_TRUE(refused([](ReducePlan&) {}, 10, 9));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[0].replica = ReplicaId(99); }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].replica = ReplicaId(10); }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].part_first = 4; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].part_count = 4; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].weight = -1; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].weight = NAN; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].clip_factor = 0; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].clip_factor = 1.5; }));
  EXPECT_FALSE(refused([](ReducePlan& p) { p.members[0].weight = 0; }, 0));
}

}  // namespace
}  // namespace shoal::outer_opt
