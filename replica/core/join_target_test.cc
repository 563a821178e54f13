#include "replica/core/join_target.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "job/sync_spec_test_util.h"
#include "replica/core/replica_test_util.h"

namespace shoal::replica {
namespace {

using outer_opt::JoinMode;
using outer_opt::StepTerms;
using outer_opt::ValueRange;

constexpr std::int64_t kValues = 1'000;

std::vector<float> drawn(std::uint64_t seed, double scale) {
  Prng prng(seed);
  std::vector<float> values(kValues);
  for (float& v : values) v = static_cast<float>(scale * prng.normal());
  return values;
}

JobSpec spec_of(const SyncSpec& sync) {
  JobSpec spec;
  spec.sync = sync;
  spec.train.weight_decay = 0.1;
  spec.train.clip = 0.5;
  return spec;
}

std::unique_ptr<OuterAlgorithm> algorithm_of(const SyncSpec& sync) {
  return make_outer_algorithm(spec_of(sync), {{0, 300, true}, {300, 700, false}});
}

SyncSpec sharded() { return {.outer_state = shoal::OuterState::kSharded}; }

SyncSpec optimized_by(OuterMethod method) { return {.outer = {.method = method}}; }

std::vector<SyncSpec> followed() {
  using enum SyncAlgorithm;
  std::vector<SyncSpec> all{sync_of(kLocalSgd), sync_of(kDdp), sync_of(kAsync), sharded()};
  for (const OuterTraits& traits : kOuterTraits) all.push_back(optimized_by(traits.method));
  return all;
}

StepTerms terms_of(const CommitRound& commit, double norm) {
  return {commit.key.round, 0, commit.outer_lr, commit.share, commit.decay, commit.push, norm};
}

// Run by run and round by round, in any order of the runs, the bits are those of whole steps.
TEST(JoinTarget, RunsThatFollowComeToTheBitsOfTheSteps) {
  for (const SyncSpec& sync : followed()) {
    const auto algorithm = algorithm_of(sync);
    OuterState stepped = algorithm->zero_state(kValues);
    stepped.anchor = drawn(1, 1);
    OuterState joined = algorithm->zero_state(kValues);
    outer_opt::MomentsCopy moments;
    OuterStateTarget target(*algorithm, joined, moments);
    const std::vector<ValueRange> runs = {{0, 256}, {256, 300}, {556, 444}};
    std::vector<float> all = stepped.anchor;
    for (const auto& [name, values] : stepped.vectors) {
      all.insert(all.end(), values.begin(), values.end());
    }
    target.place({0, kValues}, all);
    for (RoundNumber round = 1; round <= 5; ++round) {
      CommitRound commit = commit_of(round, 0.7);
      commit.share = 0.5, commit.decay = 0.9, commit.push = 0.3;
      const std::vector<float> average = drawn(10 + static_cast<std::uint64_t>(round), 0.1);
      take_step(*algorithm, commit, {{0, kValues}}, average, stepped);
      const StepTerms terms = terms_of(commit, algorithm->norm_of(average));
      for (const ValueRange& run : runs) {
        target.follow(terms, run,
                      std::span(average).subspan(static_cast<std::size_t>(run.first),
                                                 static_cast<std::size_t>(run.count)));
      }
    }
    EXPECT_EQ(joined.anchor, stepped.anchor);
    EXPECT_EQ(joined.vectors, stepped.vectors);
    EXPECT_NE(joined.anchor, drawn(1, 1));
  }
}

TEST(JoinTarget, KnowsHowEachKindOfJobIsJoined) {
  const auto shape = [](const SyncSpec& sync) {
    const auto algorithm = algorithm_of(sync);
    return join_shape(*algorithm, algorithm->zero_state(kValues), {{{0, kValues}}}, 5);
  };
  EXPECT_EQ(shape(sync_of(SyncAlgorithm::kDiloco)).vectors, 2);
  EXPECT_EQ(shape(sync_of(SyncAlgorithm::kDiloco)).moments, 5);
  for (const OuterTraits& traits : kOuterTraits) {
    EXPECT_EQ(shape(optimized_by(traits.method)).vectors, 1 + std::ssize(traits.vectors));
  }
  EXPECT_EQ(shape(sharded()).vectors, 1);
  EXPECT_EQ(shape(sync_of(SyncAlgorithm::kDdp)).vectors, 3);
  EXPECT_EQ(shape(sync_of(SyncAlgorithm::kDdp)).moments, 0);
  for (const SyncSpec& sync : followed()) EXPECT_EQ(shape(sync).mode, JoinMode::kFollows);
  EXPECT_EQ(shape({.topology = Topology::kMoshpit}).mode, JoinMode::kAnyRound);
  EXPECT_EQ(shape(sync_of(SyncAlgorithm::kNone)).mode, JoinMode::kThisRound);
}

TEST(JoinTarget, PutsMomentsBehindOneAnother) {
  const auto algorithm = algorithm_of(sync_of(SyncAlgorithm::kDiloco));
  OuterState state = algorithm->zero_state(3);
  outer_opt::MomentsCopy moments{{0, 0, 0}, {0, 0}, 0};
  OuterStateTarget target(*algorithm, state, moments);
  target.place_moments(2, std::vector<float>{7, 8, 9});
  EXPECT_EQ(moments.first, (std::vector<float>{0, 0, 7}));
  EXPECT_EQ(moments.second, (std::vector<float>{8, 9}));
}

TEST(JoinTarget, OpenMomentsGrowWithWhatComes) {
  const auto algorithm = algorithm_of(sync_of(SyncAlgorithm::kDiloco));
  OuterState state = algorithm->zero_state(3);
  outer_opt::MomentsCopy moments{.is_open = true};
  OuterStateTarget target(*algorithm, state, moments);
  target.place_moments(2, std::vector<float>{7, 8});
  target.place_moments(0, std::vector<float>{5, 6});
  EXPECT_EQ(moments.first, (std::vector<float>{5, 6, 7, 8}));
}

TEST(JoinTarget, MomentsThatCannotBeAreNotTaken) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(are_possible({{1, -1, 0}, {0, 2}, 3}));
  EXPECT_TRUE(are_possible({}));
  EXPECT_FALSE(are_possible({{1, kNan}, {0}, 3}));
  EXPECT_FALSE(are_possible({{-kInf}, {0}, 3}));
  EXPECT_FALSE(are_possible({{1}, {-1e-9f}, 3})) << "a square";
  EXPECT_FALSE(are_possible({{1}, {kNan}, 3}));
  EXPECT_FALSE(are_possible({{1}, {1}, -1}));
}

// What a StateSource gives is what the target takes.
TEST(JoinTarget, AHeldStateKeepsItsVectors) {
  auto state = std::make_shared<OuterState>();
  state->anchor = {1, 2};
  state->vectors = {{"momentum", {3, 4}}};
  const outer_opt::HeldState held = held_state(key_of(3), state);
  EXPECT_EQ(state.use_count(), 2);
  ASSERT_EQ(held.vectors.size(), 2u);
  EXPECT_EQ(held.vectors[0].data(), state->anchor.data());
  EXPECT_EQ(held.vectors[1].data(), state->vectors[0].values.data());
}

}  // namespace
}  // namespace shoal::replica
