// Whole reduces in memory: the sessions of all members, a network that delivers one frame at a time
// in a seeded order, and losses placed exactly.
#include "outer_opt/core/butterfly_session.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec.h"

namespace shoal::outer_opt {
namespace {

struct Message {
  FrameHeader header;
  std::vector<std::byte> payload;
};

// All members of one attempt. deliver() moves one frame by one hop.
struct Swarm {
  Swarm(ReducePlan p, std::int64_t frame_values, std::vector<std::vector<float>> inputs)
      : plan(std::move(p)), inputs(std::move(inputs)), gone(plan.members.size()) {
    averages.assign(plan.members.size(), std::vector<float>(plan.value_count, NAN));
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
      const ReplicaId self = plan.members[i].replica;
      EXPECT_TRUE(ButterflySession::check(plan, self, frame_values, this->inputs[i].size(),
                                          averages[i].size())
                      .ok());
      sessions.push_back(std::make_unique<ButterflySession>(plan, self, frame_values,
                                                            this->inputs[i], averages[i]));
      local(static_cast<int>(i));
    }
  }

  void local(int member) {
    while (auto work = sessions[member]->local_work()) {
      sessions[member]->finish(*work, sessions[member]->run(*work, {}));
    }
  }

  // At most one frame is under way per stream and direction, as on a real stream.
  bool send(int from, int to, FrameKind kind) {
    auto& slot = wire[{from, to, kind}];
    if (slot || gone[from] || gone[to]) return false;
    const auto frame = sessions[from]->next_frame(to, kind);
    if (!frame) return false;
    const auto resident = sessions[from]->resident(*frame);
    Message message{{}, std::vector<std::byte>(resident.begin(), resident.end())};
    if (resident.empty()) {
      message.payload.resize(sessions[from]->payload_size(*frame));
      sessions[from]->encode(*frame, message.payload);
    }
    message.header = sessions[from]->header(*frame, message.payload);
    slot = std::make_unique<Message>(std::move(message));
    return true;
  }

  bool receive(int from, int to, FrameKind kind) {
    auto& slot = wire[{from, to, kind}];
    if (!slot || gone[to] || lost(to, from)) return false;
    const auto work = sessions[to]->admit(from, slot->header);
    if (!work) return false;
    // Cut at odd places, as slices are.
    const std::span<const std::byte> all(slot->payload);
    const std::size_t cut = all.size() / 3;
    const std::span<const std::byte> pieces[] = {all.first(cut), all.subspan(cut)};
    sessions[to]->finish(*work, sessions[to]->run(*work, pieces));
    slot.reset();
    local(to);
    return true;
  }

  bool lost(int at, int peer) const { return known_lost.contains({at, peer}); }

  // The process of `member` dies: what is under way to or from it is gone, the others notice.
  void kill(int member) {
    gone[member] = true;
    for (auto& [route, slot] : wire) {
      if (std::get<0>(route) == member || std::get<1>(route) == member) slot.reset();
    }
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      if (gone[i]) continue;
      known_lost[{static_cast<int>(i), member}] = true;
      sessions[i]->peer_lost(member, "killed");
      local(static_cast<int>(i));
    }
  }

  // A driver that fails tells the others why before it goes.
  void spread_failures() {
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      if (gone[i] || sessions[i]->state() != SessionState::kBroken) continue;
      for (std::size_t k = 0; k < sessions.size(); ++k) {
        if (sessions[k]->state() == SessionState::kRunning)
          sessions[k]->fail(sessions[i]->failure());
      }
    }
  }

  // Every possible hop once, in an order drawn from the seed. Returns the number of hops made.
  int round(Prng& prng, int limit) {
    struct Hop {
      int from, to;
      FrameKind kind;
      bool is_send;
    };
    std::vector<Hop> hops;
    const int n = static_cast<int>(sessions.size());
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        if (from == to) continue;
        for (const auto kind : {FrameKind::kContribution, FrameKind::kAverage}) {
          hops.push_back({from, to, kind, true});
          hops.push_back({from, to, kind, false});
        }
      }
    }
    prng.shuffle(hops);
    int made = 0;
    for (const Hop& hop : hops) {
      if (made == limit) break;
      made += hop.is_send ? send(hop.from, hop.to, hop.kind) : receive(hop.from, hop.to, hop.kind);
    }
    return made;
  }

  // Runs until nothing moves; stops after `limit` hops.
  int run(Prng& prng, int limit = 1 << 30) {
    int total = 0;
    while (total < limit) {
      const int made = round(prng, std::min(limit - total, 3));
      if (made == 0) break;
      total += made;
    }
    return total;
  }

  ReducePlan plan;
  std::vector<std::vector<float>> inputs, averages;
  std::vector<std::unique_ptr<ButterflySession>> sessions;
  std::map<std::tuple<int, int, FrameKind>, std::unique_ptr<Message>> wire;
  std::map<std::pair<int, int>, bool> known_lost;
  std::vector<bool> gone;
};

ReducePlan make_plan(CodecKind codec, std::int64_t values, const std::vector<double>& weights,
                     std::vector<double> shares = {}) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.codec = codec;
  plan.value_count = values;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    plan.members.push_back({ReplicaId(10 + i), "host:1", weights[i], 1, 0, 0});
  }
  if (shares.empty()) shares.assign(weights.size(), 1);
  assign_parts(plan, shares);
  return plan;
}

std::vector<std::vector<float>> random_inputs(const ReducePlan& plan, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<std::vector<float>> inputs(plan.members.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (plan.members[i].weight == 0) continue;
    for (std::int64_t v = 0; v < plan.value_count; ++v) {
      inputs[i].push_back(static_cast<float>(prng.normal()));
    }
  }
  return inputs;
}

void expect_all_done_and_equal(Swarm& swarm) {
  const std::size_t n = swarm.sessions.size();
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < n; ++i) {
    if (swarm.gone[i]) continue;
    ASSERT_EQ(swarm.sessions[i]->state(), SessionState::kDone) << "member " << i;
    if (!first) first = i;
    EXPECT_EQ(swarm.sessions[i]->digest(), swarm.sessions[*first]->digest());
    const auto &a = swarm.averages[i], &b = swarm.averages[*first];
    EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), 4 * a.size()) == 0);
  }
}

TEST(Butterfly, SmallIntegersAveragedExactly) {
  for (const CodecKind codec : kDenseCodecs) {
    ReducePlan plan = make_plan(codec, 6, {1, 1, 2});
    plan.members[2].clip_factor = 0.5;
    // (1*a + 1*b + 2*0.5*c) / 4; the largest value of each part of two gives an exact scale, of
    // which the other one is a magnitude.
    const float top = codec == CodecKind::kInt4 ? 7 : codec == CodecKind::kE3m0 ? 64 : 127;
    Swarm swarm(
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
      std::vector<double> weights;
      for (std::size_t i = 0; i < n; ++i) weights.push_back(100.0 + 37.0 * static_cast<double>(i));
      const ReducePlan plan = make_plan(codec, 1003, weights);
      const auto inputs = random_inputs(plan, 7);
      std::optional<Digest> digest;
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Swarm swarm(plan, 64, inputs);
        Prng prng(seed);
        swarm.run(prng);
        expect_all_done_and_equal(swarm);
        if (!digest) digest = swarm.sessions[0]->digest();
        EXPECT_EQ(swarm.sessions[0]->digest(), *digest);
      }
    }
  }
}

TEST(Butterfly, IsTheWeightedMean) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 500, {640, 1280, 320});
  Swarm swarm(plan, 100, random_inputs(plan, 3));
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
        Swarm swarm(plan, 32, random_inputs(plan, values + 1));
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
    Swarm swarm(plan, 16, {{}, {}, {}});
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
        int hops = 0, broken = 0, done = 0;
        for (int limit = 0;; ++limit) {
          Swarm swarm(plan, 8, inputs);
          Prng prng(limit % 7);
          hops = swarm.run(prng, limit);
          swarm.kill(victim);
          swarm.run(prng);
          swarm.spread_failures();
          for (int i = 0; i < 3; ++i) {
            if (i == victim) continue;
            const ButterflySession& s = *swarm.sessions[i];
            ASSERT_NE(s.state(), SessionState::kRunning)
                << "victim " << victim << " after " << limit;
            if (s.state() == SessionState::kDone) {
              ++done;
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
      }
    }
  }
}

TEST(Butterfly, LostSenderIsLeftOutOfWhatItHadNotSent) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 4, {1, 1, 2}, {1, 0, 0});
  Swarm swarm(plan, 2, {{4, 4, 4, 4}, {8, 8, 8, 8}, {2, 2, 2, 2}});
  ASSERT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.receive(1, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.send(2, 0, FrameKind::kContribution));
  ASSERT_TRUE(swarm.receive(2, 0, FrameKind::kContribution));
  swarm.kill(2);
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  EXPECT_EQ(swarm.averages[0], (std::vector<float>{4, 4, 6, 6}));  // (4+8+2*2)/4, then (4+8)/2
}

TEST(Butterfly, FramesWaitForTheirTurn) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1, 1}, {1, 0, 0});
  Swarm swarm(plan, 8, {{1, 1}, {2, 2}, {3, 3}});
  ASSERT_TRUE(swarm.send(2, 0, FrameKind::kContribution));
  EXPECT_FALSE(swarm.receive(2, 0, FrameKind::kContribution));  // member 1 comes first
  EXPECT_EQ(swarm.sessions[0]->state(), SessionState::kRunning);
  ASSERT_TRUE(swarm.send(1, 0, FrameKind::kContribution));
  EXPECT_TRUE(swarm.receive(1, 0, FrameKind::kContribution));
  EXPECT_TRUE(swarm.receive(2, 0, FrameKind::kContribution));
}

struct BadFrame : testing::Test {
  ReducePlan plan = make_plan(CodecKind::kFp32, 4, {1, 1});
  std::vector<float> input{1, 2, 3, 4}, average = std::vector<float>(4);
  ButterflySession session{plan, ReplicaId(10), 2, input, average};
  std::vector<float> values{5, 6};

  FrameHeader good() const {
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(values))};
    return {FrameKind::kContribution, CodecKind::kFp32, 0, 0, 0, 2, 8, payload_checksum(pieces)};
  }
  void deliver(const FrameHeader& header) {
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(values))};
    if (const auto work = session.admit(1, header))
      session.finish(*work, session.run(*work, pieces));
  }
  void expect_blamed() const {
    ASSERT_EQ(session.state(), SessionState::kBroken);
    EXPECT_EQ(session.failure().failure, ReduceFailure::kBadFrame);
    EXPECT_EQ(session.failure().peer, 1);
  }
};

TEST_F(BadFrame, GoodOneIsTaken) {
  deliver(good());
  EXPECT_EQ(session.state(), SessionState::kRunning);
  EXPECT_EQ(average[0], 3.0f);
}
TEST_F(BadFrame, SecondTime) {
  deliver(good());
  deliver(good());
  expect_blamed();
}
TEST_F(BadFrame, OtherPart) {
  FrameHeader header = good();
  header.part = 1;
  deliver(header);
  expect_blamed();
}
TEST_F(BadFrame, OtherCount) {
  FrameHeader header = good();
  header.count = 1;
  deliver(header);
  expect_blamed();
}
TEST_F(BadFrame, OtherCodec) {
  FrameHeader header = good();
  header.codec = CodecKind::kInt8;
  deliver(header);
  expect_blamed();
}
TEST_F(BadFrame, Checksum) {
  FrameHeader header = good();
  header.checksum ^= 1;
  deliver(header);
  expect_blamed();
}
TEST_F(BadFrame, NotFinite) {
  values[1] = NAN;
  deliver(good());
  expect_blamed();
}

TEST(Butterfly, OverflowOfTheAverageIsNobodysFrame) {
  const ReducePlan plan = make_plan(CodecKind::kFp32, 2, {1, 1}, {1, 0});
  const float max = 3e38f;
  Swarm swarm(plan, 8, {{max, max}, {max, max}});
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
    return !ButterflySession::check(plan, ReplicaId(10), 4, pg, avg).ok();
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
