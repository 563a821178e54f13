// For tests: all sessions of one attempt in memory, a network that delivers one frame at a time in
// an order drawn from a seed, and losses placed exactly.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/reduce/make_session.h"
#include "outer_opt/core/round/plan_test_util.h"

namespace shoal::outer_opt {

struct Message {
  FrameHeader header;
  std::vector<std::byte> payload;
};

// All members of one attempt. deliver() moves one frame by one hop.
struct SessionSwarm {
  using Made = Result<std::unique_ptr<ReduceSession>>;
  // Makes the session of a member whose vectors are not those of this swarm; null for others.
  using MakeElsewhere = std::function<Made(std::size_t member, const ReducePlan& plan)>;

  // Inputs of members without a weight are not looked at. `outer_momentum` is that of the whole
  // vector, where the plan has an owner step; `clip_centers`, in a group, those of the members.
  SessionSwarm(ReducePlan p, std::int64_t frame_values, std::vector<std::vector<float>> values,
               std::vector<float> outer_momentum = {}, const MakeElsewhere& elsewhere = {},
               std::vector<std::vector<float>> clip_centers = {})
      : plan(std::move(p)),
        inputs(std::move(values)),
        momentum(std::move(outer_momentum)),
        centers(std::move(clip_centers)),
        gone(plan.members.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (plan.members[i].weight == 0) inputs[i].clear();
      const bool sparse = plan.codec == CodecKind::kSparse2;
      encoded.emplace_back(sparse ? sparse2_size(inputs[i].size()) : 0);
      if (sparse) sparse2_encode(inputs[i], encoded[i]);
    }
    for (const ReduceMember& m : plan.members) {
      averages.emplace_back(m.reducer ? m.part_count : plan.value_count, NAN);
    }
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
      const ReplicaId self = plan.members[i].replica;
      Made session = elsewhere ? elsewhere(i, plan) : Made(nullptr);
      if (session.ok() && *session == nullptr) {
        ReduceInput input{inputs[i], encoded[i], momentum_of(plan.members[i])};
        if (!centers.empty()) input.clip_center = centers[i];
        session = make_session(plan, self, frame_values, input, averages[i]);
      }
      EXPECT_TRUE(session.ok()) << to_string(session.error());
      sessions.push_back(std::move(session).value());
      local(static_cast<int>(i));
    }
  }

  std::span<const float> momentum_of(const ReduceMember& member) const {
    if (momentum.empty()) return {};
    return std::span(momentum).subspan(member.part_first, member.part_count);
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
  std::vector<float> momentum;
  std::vector<std::vector<float>> centers;
  std::vector<std::vector<std::byte>> encoded;
  std::vector<std::unique_ptr<ReduceSession>> sessions;
  std::map<std::tuple<int, int, FrameKind>, std::unique_ptr<Message>> wire;
  std::map<std::pair<int, int>, bool> known_lost;
  std::vector<bool> gone;
};

inline std::vector<std::vector<float>> random_inputs(const ReducePlan& plan, std::uint64_t seed) {
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

inline void expect_all_done_and_equal(SessionSwarm& swarm) {
  const std::size_t n = swarm.sessions.size();
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < n; ++i) {
    if (swarm.gone[i]) continue;
    ASSERT_EQ(swarm.sessions[i]->state(), SessionState::kDone) << "member " << i;
    if (swarm.plan.members[i].reducer) continue;  // it has its part only
    if (!first) first = i;
    EXPECT_EQ(swarm.sessions[i]->digest(), swarm.sessions[*first]->digest());
    const auto &a = swarm.averages[i], &b = swarm.averages[*first];
    EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), 4 * a.size()) == 0);
  }
}

// What members vote with tells any two averages apart: another one in any chunk is another digest.
inline void expect_digest_of_every_chunk(const ReducePlan& plan, std::int64_t frame_values) {
  const auto digest_of = [&](const std::vector<std::vector<float>>& inputs) {
    SessionSwarm swarm(plan, frame_values, inputs);
    Prng prng(1);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    return swarm.sessions[0]->digest();
  };
  const auto inputs = random_inputs(plan, 3);
  std::set<Digest> seen{digest_of(inputs)};
  for (std::int64_t first = 0; first < plan.value_count; first += frame_values) {
    auto changed = inputs;
    for (auto& values : changed) {
      const auto end = std::min<std::int64_t>(first + frame_values, std::ssize(values));
      for (std::int64_t v = first; v < end; ++v) values[v] = -values[v];
    }
    EXPECT_TRUE(seen.insert(digest_of(changed)).second) << "values from " << first;
  }
}

// A frame with a changed byte, at any hop, breaks the receiver's session and blames the sender.
inline void expect_damage_is_blamed(const ReducePlan& plan, std::int64_t frame_values) {
  const auto inputs = random_inputs(plan, 3);
  int damaged = 0;
  for (int hops = 1;; ++hops) {
    SessionSwarm swarm(plan, frame_values, inputs);
    Prng prng(1);
    if (swarm.run(prng, hops) < hops) break;
    for (auto& [route, slot] : swarm.wire) {
      const auto [from, to, kind] = route;
      if (!slot || swarm.sessions[to]->state() != SessionState::kRunning) continue;
      slot->payload.back() ^= std::byte{1};
      if (!swarm.receive(from, to, kind)) continue;  // not its turn yet
      ++damaged;
      ASSERT_EQ(swarm.sessions[to]->state(), SessionState::kBroken) << "after " << hops;
      EXPECT_EQ(swarm.sessions[to]->failure().failure, ReduceFailure::kBadFrame);
      EXPECT_EQ(swarm.sessions[to]->failure().peer, from);
    }
  }
  EXPECT_GT(damaged, 10);
}

// Runs the attempt with frames arriving in ten orders: the averages are the same bits every time.
inline void expect_same_bits_in_any_order(const ReducePlan& plan, std::int64_t frame_values) {
  const auto inputs = random_inputs(plan, 7);
  std::optional<Digest> digest;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SessionSwarm swarm(plan, frame_values, inputs);
    Prng prng(seed);
    swarm.run(prng);
    expect_all_done_and_equal(swarm);
    if (testing::Test::HasFatalFailure()) return;
    if (!digest) digest = swarm.sessions[0]->digest();
    EXPECT_EQ(swarm.sessions[0]->digest(), *digest) << "seed " << seed;
  }
}

// 100, 137, 174, ...
inline std::vector<double> unequal_weights(std::size_t members) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < members; ++i)
    weights.push_back(100.0 + 37.0 * static_cast<double>(i));
  return weights;
}

}  // namespace shoal::outer_opt
