// Averages that are kept as the frames that carried them: of whole attempts in memory.
#include "outer_opt/core/reduce/average_frames.h"

#include <cmath>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kFrame = 300;  // not whole runs of a codec

std::vector<float> values_of(const AverageFrames& frames, std::span<const std::byte> all,
                             const ValueRange& range) {
  std::vector<float> values;
  frames.visit(all, range, [&](std::int64_t first, std::span<const float> run) {
    EXPECT_EQ(first, range.first + std::ssize(values));
    values.insert(values.end(), run.begin(), run.end());
  });
  return values;
}

// A swarm of which those that keep everything keep frames; but for member `keeps_values`.
struct FrameSwarm {
  FrameSwarm(const ReducePlan& plan, const std::vector<std::vector<float>>& inputs,
             const std::vector<float>& momentum = {}, std::size_t keeps_values = 99)
      : frames(plan, kFrame), kept(plan.members.size()), sums(plan.members.size()) {
    const auto make = [&](std::size_t i, const ReducePlan& p) -> SessionSwarm::Made {
      const ReduceMember& member = p.members[i];
      if (member.reducer || i == keeps_values) return std::unique_ptr<ReduceSession>();
      kept[i].resize(frames.bytes());
      ReduceInput input;
      if (member.weight > 0) input.pseudo_gradient = inputs[i];
      if (!momentum.empty()) {
        input.momentum = std::span(momentum).subspan(static_cast<std::size_t>(member.part_first),
                                                     static_cast<std::size_t>(member.part_count));
      }
      return make_session(p, member.replica, kFrame, input,
                          AverageRoom::for_frames(kept[i], sums[i]));
    };
    swarm.emplace(plan, kFrame, inputs, momentum, make);
    Prng prng(5);
    swarm->run(prng);
  }

  AverageFrames frames;
  std::vector<std::vector<std::byte>> kept;
  std::vector<SpareValues> sums;
  std::optional<SessionSwarm> swarm;
};

// As the same plan gives it where everybody keeps values: average, digest and squares.
void expect_the_same_average(const ReducePlan& plan, const std::vector<float>& momentum = {},
                             std::size_t keeps_values = 99) {
  const auto inputs = random_inputs(plan, 3);
  SessionSwarm plain(plan, kFrame, inputs, momentum);
  Prng prng(1);
  plain.run(prng);
  expect_all_done_and_equal(plain);
  const FrameSwarm framed(plan, inputs, momentum, keeps_values);
  std::size_t members = 0;
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    ReduceSession& session = *framed.swarm->sessions[i];
    ASSERT_EQ(session.state(), SessionState::kDone) << "member " << i;
    EXPECT_EQ(session.seen(), plain.sessions[i]->seen());
    if (framed.kept[i].empty()) continue;
    ++members;
    EXPECT_EQ(session.digest(), plain.sessions[i]->digest());
    EXPECT_EQ(values_of(framed.frames, framed.kept[i], {0, plan.value_count}), plain.averages[i]);
  }
  EXPECT_GT(members, 0u);
}

std::vector<CodecKind> codecs() {
  std::vector<CodecKind> kinds;
  for (const CodecKind kind : kDenseCodecs) {
    if (kind != CodecKind::kFp32) kinds.push_back(kind);
  }
  return kinds;
}

TEST(AverageFrames, GiveBackTheAverageBitForBit) {
  for (const CodecKind kind : codecs()) {
    for (std::size_t n = 1; n <= 4; ++n) {
      for (const std::int64_t values : {1, 299, 1003}) {
        expect_the_same_average(make_plan(kind, values, unequal_weights(n)));
      }
    }
    expect_the_same_average(make_plan(kind, 10'001, {1, 2, 0, 4}, {1, 5, 0, 2}));
  }
}

TEST(AverageFrames, StandBesideMembersThatKeepValues) {
  for (const CodecKind kind : codecs()) {
    expect_the_same_average(make_plan(kind, 2003, {1, 2, 3}), {}, 1);
  }
}

TEST(AverageFrames, CarryOwnerStepsAndWhatAggregatorsMake) {
  ReducePlan plan = make_plan(CodecKind::kInt8, 2003, {1, 2, 3, 4});
  plan.codes_own = true;
  expect_the_same_average(plan);
  plan.aggregator = Aggregator::kTrimmedMean;
  expect_the_same_average(plan);
  plan = make_plan(CodecKind::kInt4, 2003, {1, 2});
  plan.owner_step = OwnerStep{{0.7, 0.9}, {}};
  expect_the_same_average(plan, std::vector<float>(2003, 0.25f));
}

TEST(AverageFrames, OfReducersAreKeptByTheOthers) {
  ReducePlan plan = make_plan(CodecKind::kInt8, 2003, {1, 2, 0}, {0, 1, 1});
  plan.topology = Topology::kParamServer;
  plan.members[2].reducer = true;
  expect_the_same_average(plan);
}

TEST(AverageFrames, AreReadFromAnyValueOn) {
  const ReducePlan plan = make_plan(CodecKind::kInt8, 20'011, {1, 1, 1}, {3, 0, 5});
  const FrameSwarm framed(plan, random_inputs(plan, 9));
  const auto& kept = framed.kept[0];
  const std::vector<float> all = values_of(framed.frames, kept, {0, plan.value_count});
  for (const ValueRange& range : std::vector<ValueRange>{
           {0, 1}, {255, 2}, {299, 3}, {7'503, 3}, {7'000, 9'000}, {20'010, 1}, {400, 0}}) {
    const std::vector<float> some = values_of(framed.frames, kept, range);
    EXPECT_TRUE(
        std::ranges::equal(some, std::span(all).subspan(static_cast<std::size_t>(range.first),
                                                        static_cast<std::size_t>(range.count))))
        << range.first;
  }
}

// Member 3 owns all of it, and member 1 sends faster than member 2.
TEST(AverageFrames, WhoIsFirstWaitsWhenManySumsWaitForOthers) {
  constexpr std::int64_t kLarge = 1 << 20, kChunks = 17;
  const ReducePlan plan = make_plan(CodecKind::kInt8, kChunks * kLarge, {1, 1, 1}, {0, 0, 1});
  const VectorSource zeros(
      kChunks * kLarge, [](std::int64_t, std::span<float> out) { std::ranges::fill(out, 0.0f); });
  std::vector<std::byte> kept(AverageFrames(plan, kLarge).bytes());
  SpareValues sums;
  auto session = make_session(plan, plan.members[2].replica, kLarge, {zeros, {}},
                              AverageRoom::for_frames(kept, sums))
                     .value();
  std::vector<std::byte> payload(encoded_size(CodecKind::kInt8, kLarge));
  codec(CodecKind::kInt8).encode(std::vector<float>(kLarge), payload);
  const std::span<const std::byte> pieces[] = {payload};
  const auto take = [&](int peer, std::int64_t chunk) {
    FrameHeader header{FrameKind::kContribution,
                       CodecKind::kInt8,
                       2,
                       static_cast<std::uint32_t>(chunk),
                       chunk * kLarge,
                       kLarge,
                       static_cast<std::uint32_t>(payload.size())};
    header.checksum = payload_checksum(pieces);
    const auto work = session->admit(peer, header);
    if (work) session->finish(*work, session->run(*work, pieces));
    return work.has_value();
  };
  for (std::int64_t chunk = 0; chunk < kChunks - 1; ++chunk) EXPECT_TRUE(take(0, chunk));
  EXPECT_FALSE(take(0, kChunks - 1));
  EXPECT_TRUE(take(1, 0)) << "which completes a sum";
  EXPECT_TRUE(take(0, kChunks - 1));
  EXPECT_EQ(session->state(), SessionState::kRunning);
}

TEST(AverageFrames, ADamagedFrameBreaksTheAttempt) {
  const ReducePlan plan = make_plan(CodecKind::kInt8, 96, {1, 2});
  const auto inputs = random_inputs(plan, 3);
  std::vector<std::byte> kept(AverageFrames(plan, kFrame).bytes());
  SpareValues sums;
  const auto make = [&](std::size_t i, const ReducePlan& p) -> SessionSwarm::Made {
    if (i > 0) return std::unique_ptr<ReduceSession>();
    return make_session(p, p.members[i].replica, kFrame, {inputs[i], {}},
                        AverageRoom::for_frames(kept, sums));
  };
  SessionSwarm swarm(plan, kFrame, inputs, {}, make);
  Prng prng(1);
  for (int hops = 1; !swarm.wire[{1, 0, FrameKind::kAverage}]; ++hops) {
    ASSERT_EQ(swarm.run(prng, 1), 1);
  }
  swarm.wire[{1, 0, FrameKind::kAverage}]->payload.back() ^= std::byte{1};
  ASSERT_TRUE(swarm.receive(1, 0, FrameKind::kAverage));
  EXPECT_EQ(swarm.sessions[0]->failure().failure, ReduceFailure::kBadFrame);
}

// An int8 block whose scale is not finite.
TEST(AverageFrames, WhatMemoryHasLostIsNotANumber) {
  const ReducePlan plan = make_plan(CodecKind::kInt8, 600, {1});
  FrameSwarm framed(plan, random_inputs(plan, 3));
  std::ranges::fill(std::span(framed.kept[0]).first(4), std::byte{0xff});
  const std::vector<float> values = values_of(framed.frames, framed.kept[0], {0, 600});
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isfinite(values[300])) << "of the next frame";
}

TEST(AverageFrames, SuitDensePartsThatCoverTheVector) {
  ReducePlan plan = make_plan(CodecKind::kInt8, 96, {1, 2});
  EXPECT_TRUE(AverageFrames::suit(plan, kFrame));
  const auto refused = [&](auto change) {
    ReducePlan other = plan;
    change(other);
    return !AverageFrames::suit(other, kFrame);
  };
  EXPECT_FALSE(AverageFrames::suit(plan, 0));
  EXPECT_FALSE(AverageFrames::suit(plan, kFrameValuesMax + 1));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.codec = CodecKind::kFp32; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.codec = CodecKind::kSparse2; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.topology = Topology::kRing; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].part_first += 1; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members[1].part_count = -1; }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.members.pop_back(); }));
  EXPECT_TRUE(refused([](ReducePlan& p) { p.value_count = 0; }));
}

}  // namespace
}  // namespace shoal::outer_opt
