// The vectors of a round in host memory.
#include "replica/core/outer_vectors.h"

#include <limits>

#include <gtest/gtest.h>

#include "job/job_options.h"
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
  const auto whole = vectors_.take_contribution(*algorithm_, local_, state_, {{0, 4}});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->norm, 13);  // 3, 4, 0, -12
  EXPECT_EQ(whole->max_abs, 12);
  const auto part = vectors_.take_contribution(*algorithm_, local_, state_, {{0, 2}});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->norm, 5);
  EXPECT_EQ(vectors_.contribution()[1], 4);
}

TEST_F(HostVectorsTest, WhatIsNotFiniteBesideAFragmentCountsToo) {
  local_.values[3] = std::numeric_limits<float>::infinity();
  const auto part = vectors_.take_contribution(*algorithm_, local_, state_, {{0, 2}});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->nonfinite, 1);
  EXPECT_EQ(part->norm, 5);
}

// A late replica of an async job reaches its boundary while the average is being made.
TEST_F(HostVectorsTest, AWholeContributionLeavesTheAverageAlone) {
  vectors_.average()[2] = 42;
  ASSERT_TRUE(vectors_.take_contribution(*algorithm_, local_, state_, {{0, 4}}).ok());
  EXPECT_EQ(vectors_.average()[2], 42);
}

// Another reduce may have begun when a late replica adopts.
TEST_F(HostVectorsTest, AdoptingAFragmentLeavesTheAverageAlone) {
  vectors_.average()[2] = 42;
  ASSERT_TRUE(vectors_.adopt({{0, 2}}, 0, state_, local_).ok());
  EXPECT_EQ(local_.values, (std::vector<float>{10, 10, 10, 22}));
  EXPECT_EQ(vectors_.average()[2], 42);
}

TEST_F(HostVectorsTest, ABlendKeepsAShareOfTheLocalParametersOfTheFragment) {
  ASSERT_TRUE(vectors_.adopt({{1, 2}}, 0.5, state_, local_).ok());
  EXPECT_EQ(local_.values, (std::vector<float>{7, 8, 10, 22}));
  ASSERT_TRUE(vectors_.adopt({{0, 4}}, 0, state_, local_).ok());
  EXPECT_EQ(local_.values, state_.anchor);
}

}  // namespace
}  // namespace shoal::replica
