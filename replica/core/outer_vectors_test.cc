// The vectors of a round in host memory.
#include "replica/core/outer_vectors.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "job/job_rules.h"
#include "outer_opt/core/codec/codec.h"
#include "replica/core/replica_test_util.h"

namespace shoal::replica {
namespace {

class HostVectorsTest : public testing::Test {
 protected:
  HostVectorsTest() { state_.anchor = {10, 10, 10, 10}; }

  std::unique_ptr<OuterAlgorithm> algorithm_ =
      make_outer_algorithm(default_spec(SyncAlgorithm::kDiloco), {});
  OuterState state_ = algorithm_->zero_state(4);
  VectorParameters local_{{7, 6, 10, 22}};
  HostVectors vectors_{4};
};

TEST_F(HostVectorsTest, TheContributionOfAFragmentIsPacked) {
  const auto whole = vectors_.take_contribution({*algorithm_, local_, state_, {{0, 4}}});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->norm, 13);  // 3, 4, 0, -12
  EXPECT_EQ(whole->max_abs, 12);
  const auto part = vectors_.take_contribution({*algorithm_, local_, state_, {{0, 2}}});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->norm, 5);
  EXPECT_EQ(vectors_.contribution()[1], 4);
}

TEST_F(HostVectorsTest, WhatIsNotFiniteBesideAFragmentCountsToo) {
  local_.values[3] = std::numeric_limits<float>::infinity();
  const auto part = vectors_.take_contribution({*algorithm_, local_, state_, {{0, 2}}});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->nonfinite, 1);
  EXPECT_EQ(part->norm, 5);
}

TEST_F(HostVectorsTest, ValuesOfTheFragmentCountOnceWhenTheyAreNotFinite) {
  local_.values[1] = std::numeric_limits<float>::infinity();
  const auto part = vectors_.take_contribution({*algorithm_, local_, state_, {{0, 1}, {1, 2}}});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->nonfinite, 1);
}

TEST_F(HostVectorsTest, AContributionThatStandsIsReadFromTheParameters) {
  const auto taken = vectors_.take_contribution({*algorithm_, local_, state_, {{0, 4}}, true});
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->norm, 13);
  EXPECT_TRUE(vectors_.contribution().empty()) << "it needs no memory";
  EXPECT_EQ(vectors_.contribution_source(4).copy(), (std::vector<float>{3, 4, 0, -12}));
  std::vector<float> contribution(2), average(2);
  vectors_.values_for_average(4);
  ASSERT_TRUE(vectors_.read(2, contribution, average).ok());
  EXPECT_EQ(contribution, (std::vector<float>{0, -12}));
}

TEST_F(HostVectorsTest, AContributionThatMemoryHasLostIsNotIntact) {
  constexpr std::int64_t kValues = 200'000;  // more than a block or two
  state_.anchor.assign(kValues, 2.0f);
  local_.values.assign(kValues, 1.0f);
  HostVectors vectors(kValues);
  ASSERT_TRUE(vectors.take_contribution({*algorithm_, local_, state_, {{0, kValues}}, true}).ok());
  EXPECT_TRUE(vectors.contribution_is_intact({0, kValues}));
  state_.anchor[70'000] = 3;
  EXPECT_FALSE(vectors.contribution_is_intact({0, kValues}));
  EXPECT_FALSE(vectors.contribution_is_intact({69'999, 2}));
  EXPECT_TRUE(vectors.contribution_is_intact({0, 1000})) << "of another block";
  EXPECT_TRUE(vectors.contribution_is_intact({150'000, 1000}));
}

TEST_F(HostVectorsTest, AFragmentIsTakenWhetherItStandsOrNot) {
  ASSERT_TRUE(vectors_.take_contribution({*algorithm_, local_, state_, {{1, 2}}, true}).ok());
  local_.values = {0, 0, 0, 0};
  EXPECT_EQ(vectors_.contribution_source(2).copy(), (std::vector<float>{4, 0}));
}

// A late replica of an async job reaches its boundary while the average is being made.
TEST_F(HostVectorsTest, AWholeContributionLeavesTheAverageAlone) {
  vectors_.values_for_average(4)[2] = 42;
  ASSERT_TRUE(vectors_.take_contribution({*algorithm_, local_, state_, {{0, 4}}}).ok());
  EXPECT_EQ(vectors_.average_memory()[2], 42);
}

// Another reduce may have begun when a late replica adopts.
TEST_F(HostVectorsTest, AdoptingAFragmentLeavesTheVectorsOfTheRoundAlone) {
  vectors_.values_for_average(4)[2] = vectors_.values_for_contribution()[2] = 42;
  ASSERT_TRUE(vectors_.adopt({{0, 2}}, 0, state_, local_).ok());
  EXPECT_EQ(local_.values, (std::vector<float>{10, 10, 10, 22}));
  EXPECT_EQ(vectors_.average_memory()[2], 42);
  EXPECT_EQ(vectors_.contribution()[2], 42);
}

// Two halves of an odd fragment, in another codec each time: the step is that of the values.
TEST_F(HostVectorsTest, AStepWithFramesIsTheStepWithTheirValues) {
  const outer_opt::Fragment fragment = {{1, 700}, {900, 301}};
  Prng prng(1);
  for (const CodecKind kind : {CodecKind::kFp16, CodecKind::kInt8, CodecKind::kInt4}) {
    ReducePlan plan = plan_of(1, outer_opt::value_count(fragment));
    plan.codec = kind;
    HostVectors frames(1300), values(1300);
    const auto room = frames.room_for_average(plan, 256, true);
    ASSERT_TRUE(room.keeps_frames());
    EXPECT_LE(frames.average_memory().size(), 1001u * 2 / 4 + 1) << "bytes, not values";
    std::vector<float> average(1001);
    for (float& value : average) value = static_cast<float>(prng.normal());
    const outer_opt::AverageFrames places(plan, 256);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto part =
          std::span(average).subspan(static_cast<std::size_t>(plan.members[i].part_first),
                                     static_cast<std::size_t>(plan.members[i].part_count));
      const auto bytes = places.part(room.frames, i);
      outer_opt::codec(kind).encode(part, bytes);
      ASSERT_TRUE(outer_opt::codec(kind).decode(bytes, part).ok());
    }
    std::ranges::copy(average, values.values_for_average(1001).begin());

    OuterState one = algorithm_->zero_state(1300), other = one;
    const outer_opt::StepTerms terms = step_terms(commit_of(1, 0.7), 1, 0);
    ASSERT_TRUE(frames.step(*algorithm_, terms, fragment, one).ok());
    ASSERT_TRUE(values.step(*algorithm_, terms, fragment, other).ok());
    EXPECT_EQ(one.anchor, other.anchor);
    EXPECT_EQ(one.vectors, other.vectors);
    std::vector<float> some(500);
    frames.read_average(333, some);
    EXPECT_TRUE(std::ranges::equal(some, std::span(average).subspan(333, 500)));
  }
}

TEST_F(HostVectorsTest, TheMemoryOfTheAverageShowsEveryFlippedBit) {
  ReducePlan plan = plan_of(1, 301);
  plan.codec = CodecKind::kInt8;
  HostVectors vectors(301);
  std::ranges::fill(vectors.room_for_average(plan, 256, true).frames, std::byte{3});
  const auto now = [&] { return digest_of(std::span<const float>(vectors.average_memory())); };
  const Digest before = now();
  for (std::byte& byte : std::as_writable_bytes(vectors.average_memory())) {
    byte ^= std::byte{16};
    EXPECT_NE(now(), before);
    byte ^= std::byte{16};
  }
  EXPECT_EQ(now(), before);
}

TEST_F(HostVectorsTest, AnAverageThatNobodyKeepsAsFramesIsValues) {
  ReducePlan plan = plan_of(1, 4);
  EXPECT_FALSE(vectors_.room_for_average(plan, 256, true).keeps_frames()) << "fp32";
  plan.codec = CodecKind::kInt8;
  EXPECT_TRUE(vectors_.room_for_average(plan, 256, true).keeps_frames());
  EXPECT_FALSE(vectors_.room_for_average(plan, 256, false).keeps_frames());
  plan.topology = Topology::kRing;
  EXPECT_FALSE(vectors_.room_for_average(plan, 256, true).keeps_frames());
}

TEST_F(HostVectorsTest, ABlendKeepsAShareOfTheLocalParametersOfTheFragment) {
  ASSERT_TRUE(vectors_.adopt({{1, 2}}, 0.5, state_, local_).ok());
  EXPECT_EQ(local_.values, (std::vector<float>{7, 8, 10, 22}));
  ASSERT_TRUE(vectors_.adopt({{0, 4}}, 0, state_, local_).ok());
  EXPECT_EQ(local_.values, state_.anchor);
}

}  // namespace
}  // namespace shoal::replica
