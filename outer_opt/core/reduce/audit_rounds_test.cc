// What owners see of the others, and averages that are made a second time, with the real sessions:
// the same bits in every member, and other ones where an owner averages falsely.
#include <cstring>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/reduce/session_test_util.h"
#include "outer_opt/core/round/audit.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kFrame = 512;

// Parts of different lengths, with a short frame at the end of each.
ReducePlan plan_of_four(CodecKind kind) {
  ReducePlan plan = make_plan(kind, 7777, {1, 2, 1.5, 0}, {1, 2, 3, 1});
  plan.members[1].clip_factor = 0.25;
  plan.frame_values = kFrame;
  plan.codes_own = true;
  return plan;
}

// Owners of formats with a scale sum exact products, not values rounded to fp32.
constexpr double kRounding = 2e-7;

double squares_of(CodecKind kind, std::span<const float> values) {
  double sum = 0;
  for (std::size_t at = 0; at < values.size(); at += kFrame) {
    const auto frame = values.subspan(at, std::min<std::size_t>(kFrame, values.size() - at));
    std::vector<std::byte> bytes(codec(kind).encoded_size(frame.size()));
    std::vector<float> decoded(frame.size());
    codec(kind).encode(frame, bytes);
    EXPECT_TRUE(codec(kind).decode(bytes, decoded).ok());
    for (const float value : decoded)
      sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

TEST(PartSeen, SumsTheSquaresOfWhatEachSentToThePart) {
  for (const Aggregator aggregator : {Aggregator::kMean, Aggregator::kTrimmedMean}) {
    for (const CodecKind kind : kDenseCodecs) {
      ReducePlan plan = plan_of_four(kind);
      plan.aggregator = aggregator;
      const auto inputs = random_inputs(plan, 5);
      SessionSwarm swarm(plan, kFrame, inputs);
      Prng prng(2);
      swarm.run(prng);
      for (std::size_t owner = 0; owner < 4; ++owner) {
        const PartSeen seen = swarm.sessions[owner]->seen();
        ASSERT_EQ(seen.squares.size(), 4u);
        EXPECT_EQ(seen.squares[3], 0) << "it has no weight";
        const ReduceMember& part = plan.members[owner];
        for (std::size_t i = 0; i < 3; ++i) {
          const double expected =
              squares_of(kind, std::span(inputs[i]).subspan(part.part_first, part.part_count));
          EXPECT_NEAR(seen.squares[i], expected, kRounding * expected) << to_string(kind);
        }
      }
    }
  }
}

TEST(PartSeen, TheSumsAreTheSameBitsWhateverArrivesFirst) {
  const ReducePlan plan = plan_of_four(CodecKind::kInt4);
  const auto inputs = random_inputs(plan, 5);
  std::optional<PartSeen> first;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SessionSwarm swarm(plan, kFrame, inputs);
    Prng prng(seed);
    swarm.run(prng);
    if (!first) first = swarm.sessions[2]->seen();
    EXPECT_EQ(swarm.sessions[2]->seen(), *first);
  }
}

TEST(PartSeen, InAnAllGatherOfAllThatTheOthersSent) {
  ReducePlan plan = make_plan(CodecKind::kSparse2, 3 * kSparseChunk + 100, {1, 1, 1});
  for (ReduceMember& member : plan.members) member.part_first = member.part_count = 0;
  plan.topology = Topology::kAllgather;
  const auto inputs = random_inputs(plan, 5);
  SessionSwarm swarm(plan, kSparseChunk, inputs);
  Prng prng(2);
  swarm.run(prng);
  double squares = 0;
  ASSERT_TRUE(sparse2_squares(swarm.encoded[1], inputs[1].size(), squares).ok());
  const PartSeen seen = swarm.sessions[0]->seen();
  ASSERT_EQ(seen.squares.size(), 3u);
  EXPECT_NEAR(seen.squares[1], squares, 1e-12 * squares);
  EXPECT_EQ(seen.squares[0], 0) << "nobody judges itself";
}

TEST(PartSeen, ARingSeesNoSingleMember) {
  ReducePlan plan = make_plan(CodecKind::kInt8, 1000, {1, 1, 1});
  plan.topology = Topology::kRing;
  SessionSwarm swarm(plan, kFrame, random_inputs(plan, 5));
  Prng prng(2);
  swarm.run(prng);
  EXPECT_TRUE(swarm.sessions[0]->seen().squares.empty());
}

// The audited values of each input, one range after the other.
std::vector<std::vector<float>> packed(const ReducePlan& audit,
                                       const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<float>> all;
  for (const auto& input : inputs) {
    std::vector<float>& values = all.emplace_back();
    for (const AuditedRange& range : audit.audited) {
      if (input.empty()) continue;
      values.insert(values.end(), input.begin() + range.first,
                    input.begin() + range.first + range.count);
    }
  }
  return all;
}

// How many of the audited frames differ from the average that was made first.
int count_differing(const ReducePlan& plan, const std::vector<std::vector<float>>& first,
                    const std::vector<std::vector<float>>& again) {
  SessionSwarm average(plan, kFrame, first);
  Prng prng(3);
  average.run(prng);
  int differing = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const ReducePlan audit = audit_plan(plan, draw_audit(plan, 0.7, seed));
    SessionSwarm second(audit, kFrame, packed(audit, again));
    second.run(prng);
    EXPECT_EQ(second.sessions[0]->state(), SessionState::kDone);
    std::size_t at = 0;
    for (const AuditedRange& range : audit.audited) {
      const auto count = static_cast<std::size_t>(range.count);
      differing += std::memcmp(&average.averages[0][static_cast<std::size_t>(range.first)],
                               &second.averages[0][at], count * sizeof(float)) != 0;
      at += count;
    }
  }
  return differing;
}

TEST(AuditRounds, AnAverageIsTheSameBitsWhoeverMakesIt) {
  for (const Aggregator aggregator :
       {Aggregator::kMean, Aggregator::kTrimmedMean, Aggregator::kCenteredClip}) {
    for (const CodecKind kind : kDenseCodecs) {
      ReducePlan plan = plan_of_four(kind);
      plan.aggregator = aggregator;
      const auto inputs = random_inputs(plan, 9);
      EXPECT_EQ(count_differing(plan, inputs, inputs), 0) << to_string(kind);
    }
  }
}

TEST(AuditRounds, ReducersAreAuditedAndAuditLikeOthers) {
  ReducePlan plan = make_plan(CodecKind::kInt8, 7777, {1, 1, 1, 0, 0}, {1, 0, 1, 3, 2});
  plan = with_reducers(plan, 2);
  plan.codes_own = true;
  plan.frame_values = kFrame;
  const auto inputs = random_inputs(plan, 9);
  EXPECT_EQ(count_differing(plan, inputs, inputs), 0);
}

TEST(AuditRounds, WithoutCodedOwnContributionsTheOwnerWouldShow) {
  ReducePlan plan = plan_of_four(CodecKind::kInt8);
  plan.codes_own = false;
  const auto inputs = random_inputs(plan, 9);
  EXPECT_GT(count_differing(plan, inputs, inputs), 0);
}

TEST(AuditRounds, OneValueThatIsNotTheSameShows) {
  const ReducePlan plan = plan_of_four(CodecKind::kFp32);
  const auto inputs = random_inputs(plan, 9);
  auto changed = inputs;
  for (float& value : changed[0]) value *= 1.001f;
  EXPECT_GT(count_differing(plan, inputs, changed), 0);
}

}  // namespace
}  // namespace shoal::outer_opt
