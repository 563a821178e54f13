// Whole all-gathers in memory: the sessions of all members, a network that delivers one frame at a
// time in a seeded order, losses at every moment, and frames that do not belong.
#include "outer_opt/core/allgather_session.h"

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/sparse2.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kFrame = kSparseChunk;

ReducePlan make_plan(std::int64_t values, const std::vector<double>& weights) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.topology = Topology::kAllgather;
  plan.codec = CodecKind::kSparse2;
  plan.value_count = values;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    plan.members.push_back({ReplicaId(10 + i), "host:1", weights[i], 1, 0, 0});
  }
  return plan;
}

struct Message {
  FrameHeader header;
  std::vector<std::byte> payload;
};

// All members of one attempt.
struct Swarm {
  Swarm(ReducePlan p, std::uint64_t seed) : plan(std::move(p)), gone(plan.members.size()) {
    Prng prng(seed);
    const auto n = static_cast<std::size_t>(plan.value_count);
    averages.assign(plan.members.size(), std::vector<float>(n, NAN));
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
      std::vector<float> input(n);
      for (float& v : input) v = static_cast<float>(prng.normal());
      encoded.emplace_back(plan.members[i].weight > 0 ? sparse2_size(n) : 0);
      if (!encoded[i].empty()) sparse2_encode(input, encoded[i]);
    }
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
      sessions.push_back(std::make_unique<AllgatherSession>(plan, plan.members[i].replica, kFrame,
                                                            encoded[i], averages[i]));
      local(static_cast<int>(i));
    }
  }

  void local(int member) {
    while (auto work = sessions[member]->local_work()) {
      sessions[member]->finish(*work, sessions[member]->run(*work, {}));
    }
  }

  bool send(int from, int to) {
    auto& slot = wire[{from, to}];
    if (slot || gone[from] || gone[to]) return false;
    const auto frame = sessions[from]->next_frame(to, FrameKind::kContribution);
    if (!frame) return false;
    const auto resident = sessions[from]->resident(*frame);
    slot = std::make_unique<Message>(
        Message{sessions[from]->header(*frame, resident), {resident.begin(), resident.end()}});
    return true;
  }

  bool receive(int from, int to) {
    auto& slot = wire[{from, to}];
    if (!slot || gone[to] || gone[from]) return false;
    const auto work = sessions[to]->admit(from, slot->header);
    if (!work) return false;
    const std::span<const std::byte> all(slot->payload);
    const std::span<const std::byte> pieces[] = {all.first(all.size() / 3),
                                                 all.subspan(all.size() / 3)};
    sessions[to]->finish(*work, sessions[to]->run(*work, pieces));
    slot.reset();
    local(to);
    return true;
  }

  // Hops in an order drawn from the seed until nothing moves or `limit` were made.
  int run(Prng& prng, int limit = 1 << 30) {
    const int n = static_cast<int>(sessions.size());
    std::vector<std::array<int, 3>> hops;
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        if (from != to) hops.insert(hops.end(), {{from, to, 0}, {from, to, 1}});
      }
    }
    int made = 0;
    for (bool moved = true; moved && made < limit;) {
      moved = false;
      prng.shuffle(hops);
      for (const auto& [from, to, sends] : hops) {
        if (made == limit) break;
        const bool moves = sends != 0 ? send(from, to) : receive(from, to);
        moved |= moves;
        made += moves ? 1 : 0;
      }
    }
    return made;
  }

  void kill(int member) {
    gone[member] = true;
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      if (!gone[i]) sessions[i]->peer_lost(member, "killed");
    }
  }

  void expect_done_and_equal() const {
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      ASSERT_EQ(sessions[i]->state(), SessionState::kDone) << "member " << i;
      EXPECT_EQ(sessions[i]->digest(), sessions[0]->digest());
      EXPECT_EQ(averages[i], averages[0]);
    }
  }

  ReducePlan plan;
  std::vector<std::vector<std::byte>> encoded;
  std::vector<std::vector<float>> averages;
  std::vector<std::unique_ptr<AllgatherSession>> sessions;
  std::map<std::pair<int, int>, std::unique_ptr<Message>> wire;
  std::vector<bool> gone;
};

TEST(Allgather, IsTheWeightedMeanOverThoseThatSent) {
  ReducePlan plan = make_plan(2 * kFrame + 100, {640, 1280, 0, 320});
  plan.members[1].clip_factor = 0.5;
  Swarm swarm(plan, 3);
  Prng prng(1);
  swarm.run(prng);
  swarm.expect_done_and_equal();
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
    std::optional<Digest> digest;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Swarm swarm(make_plan(3 * kFrame + 7, std::vector<double>(n, 100)), 7);
      Prng prng(seed);
      swarm.run(prng);
      swarm.expect_done_and_equal();
      if (!digest) digest = swarm.sessions[0]->digest();
      EXPECT_EQ(swarm.sessions[0]->digest(), *digest);
    }
  }
}

TEST(Allgather, NobodyContributesAndNothingToAverage) {
  for (const std::int64_t values : {std::int64_t{0}, kFrame + 1}) {
    Swarm swarm(make_plan(values, {0, 0}), 1);
    Prng prng(1);
    EXPECT_EQ(swarm.run(prng), 0);
    swarm.expect_done_and_equal();
    EXPECT_EQ(swarm.averages[0], std::vector<float>(static_cast<std::size_t>(values), 0.0f));
  }
}

// Each member is killed after every possible number of hops. A survivor is done, with the average
// that everybody would have had, or broken and blames the dead one.
TEST(Allgather, LosingAnyMemberAtAnyMoment) {
  const ReducePlan plan = make_plan(3 * kFrame, {1, 2, 3});
  Swarm whole(plan, 5);
  Prng any(1);
  whole.run(any);
  for (int victim = 0; victim < 3; ++victim) {
    int broken = 0, done = 0;
    for (int limit = 0;; ++limit) {
      Swarm swarm(plan, 5);
      Prng prng(static_cast<std::uint64_t>(limit % 7));
      const int hops = swarm.run(prng, limit);
      swarm.kill(victim);
      swarm.run(prng);
      for (int i = 0; i < 3; ++i) {
        if (i == victim) continue;
        const AllgatherSession& s = *swarm.sessions[i];
        if (s.state() == SessionState::kDone) {
          ++done;
          EXPECT_EQ(s.digest(), whole.sessions[0]->digest());
        } else if (s.state() == SessionState::kBroken) {
          ++broken;
          EXPECT_EQ(s.failure().failure, ReduceFailure::kPeerLost);
          EXPECT_EQ(s.failure().peer, victim);
        } else {
          // Waits for the other survivor, which broke off; its driver would say so.
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
    Swarm swarm(make_plan(2 * kFrame, {1, 1, 1}), 2);
    EXPECT_TRUE(swarm.send(1, 0));
    change(*swarm.wire[{1, 0}]);
    swarm.receive(1, 0);
    const AllgatherSession& s = *swarm.sessions[0];
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
  Swarm swarm(make_plan(kFrame, {1, 1}), 2);
  ASSERT_TRUE(swarm.send(1, 0));
  const FrameHeader again = swarm.wire[{1, 0}]->header;
  ASSERT_TRUE(swarm.receive(1, 0));
  EXPECT_FALSE(swarm.sessions[0]->admit(1, again));
  EXPECT_EQ(swarm.sessions[0]->state(), SessionState::kBroken);
}

TEST(Allgather, PlansThatDoNotFitAreRefused) {
  const ReducePlan good = make_plan(kFrame, {1, 1});
  const auto field = [&](auto change, std::int64_t frame_values = kFrame, std::size_t bytes = 84) {
    ReducePlan plan = good;
    change(plan);
    const Status s = AllgatherSession::check(plan, ReplicaId(10), frame_values, bytes, kFrame);
    return s.ok() ? std::string() : s.error().field;
  };
  EXPECT_EQ(field([](ReducePlan&) {}), "");
  EXPECT_EQ(field([](ReducePlan& p) { p.topology = Topology::kButterfly; }), "topology");
  EXPECT_EQ(field([](ReducePlan& p) { p.codec = CodecKind::kInt4; }), "codec");
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
