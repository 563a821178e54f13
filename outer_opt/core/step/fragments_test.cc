#include "outer_opt/core/step/fragments.h"

#include <cmath>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

JobSpec job(std::int64_t steps, std::int64_t every, std::int64_t fragments, std::int64_t overlap) {
  JobSpec spec;
  spec.train.steps = Steps(steps);
  change_sync(spec, [&](SyncSpec& sync) {
    sync.every = Steps(every);
    sync.fragments = fragments;
    sync.overlap_steps = Steps(overlap);
  });
  return spec;
}

TEST(Fragments, BlocksAreDealtInStrides) {
  const auto dealt = cut_fragments({10, {4, 4, 4, 4, 4}, 6}, 2);
  ASSERT_EQ(dealt.size(), 2u);
  // The embedding is beside the first block, the last block belongs to the first fragment.
  EXPECT_EQ(dealt[0], (Fragment{{0, 14}, {18, 4}, {26, 4}}));
  EXPECT_EQ(dealt[1], (Fragment{{14, 4}, {22, 4}, {30, 6}}));
  EXPECT_EQ(value_count(dealt[0]) + value_count(dealt[1]), 36);
}

TEST(Fragments, OneIsTheWholeVector) {
  EXPECT_EQ(cut_fragments({10, {4, 4}, 6}, 1), (std::vector<Fragment>{{{0, 24}}}));
  EXPECT_EQ(cut_fragments({0, {}, 6}, 1), (std::vector<Fragment>{{{0, 6}}}));
}

// A stage in the middle of a pipeline has neither embedding nor head: no range is empty.
TEST(Fragments, AStageInTheMiddleIsItsBlocks) {
  EXPECT_EQ(cut_fragments({0, {4, 4, 4}, 0}, 2),
            (std::vector<Fragment>{{{0, 4}, {8, 4}}, {{4, 4}}}));
}

TEST(Fragments, AsManyAsBlocksAreOneBlockEach) {
  EXPECT_EQ(cut_fragments({2, {4, 4}, 6}, 2), (std::vector<Fragment>{{{0, 6}}, {{6, 10}}}));
  EXPECT_EQ(cut_fragments({2, {4, 4}, 6}, 3),
            (std::vector<Fragment>{{{0, 5}}, {{5, 5}}, {{10, 6}}}))
      << "more: equal runs";
}

TEST(Fragments, EveryValueIsInExactlyOne) {
  for (std::int64_t blocks = 0; blocks < 9; ++blocks) {
    const StageSizes sizes{blocks % 2 * 5, std::vector<std::int64_t>(blocks, 3), 7};
    const std::int64_t values = blocks % 2 * 5 + blocks * 3 + 7;
    for (std::int64_t count = 1; count <= 6; ++count) {
      std::vector<int> seen(static_cast<std::size_t>(values), 0);
      for (const Fragment& fragment : cut_fragments(sizes, count)) {
        EXPECT_GT(value_count(fragment), 0);
        for (const ValueRange& range : fragment) {
          for (std::int64_t i = 0; i < range.count; ++i) {
            ++seen.at(static_cast<std::size_t>(range.first + i));
          }
        }
      }
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << blocks << " blocks, " << count;
    }
  }
}

TEST(Fragments, TheRoundSaysWhichAndTheLastOneIsEverything) {
  const JobSpec spec = job(100, 30, 3, 0);
  EXPECT_EQ(round_length(spec.sync), Steps(10));
  EXPECT_EQ(fragment_of(spec, 1, Steps(10)), 1);
  EXPECT_EQ(fragment_of(spec, 3, Steps(30)), 3);
  EXPECT_EQ(fragment_of(spec, 4, Steps(40)), 1);
  EXPECT_EQ(fragment_of(spec, 10, Steps(100)), 0);
  EXPECT_EQ(fragment_of(job(100, 30, 1, 0), 4, Steps(40)), 0);
  EXPECT_EQ(round_count(spec), 10);
}

TEST(Fragments, NothingIsOverlappedBeyondTheEnd) {
  const JobSpec spec = job(100, 30, 3, 4);
  EXPECT_EQ(overlap_at(spec, Steps(90)), Steps(4));
  EXPECT_EQ(overlap_at(spec, Steps(98)), Steps(2));
  EXPECT_EQ(overlap_at(spec, Steps(100)), Steps(0));
  EXPECT_EQ(overlap_at(spec, Steps(110)), Steps(0));
}

TEST(Fragments, GatherPacksTheRunsOfAFragment) {
  const std::vector<float> anchor{1, 1, 2, 4, 3};
  std::vector<float> packed(3);
  gather({{1, 2}, {4, 1}}, anchor, packed);
  EXPECT_EQ(packed, (std::vector<float>{1, 2, 3}));
}

TEST(Fragments, APartCountsFromTheFirstValueOfItsRun) {
  const Fragment fragment{{1, 4}, {8, 2}};
  EXPECT_EQ(part_in({0, 20}, fragment), fragment);
  EXPECT_EQ(part_in({3, 6}, fragment), (Fragment{{0, 2}, {5, 1}}));
  EXPECT_EQ(part_in({5, 3}, fragment), Fragment());
  EXPECT_EQ(part_in({2, 1}, fragment), (Fragment{{0, 1}}));
}

TEST(Fragments, AdoptingBlendsItsFragmentOnly) {
  const Fragment fragment{{0, 1}, {2, 1}};
  const std::vector<float> anchor{8, 8, 8};
  std::vector<float> local{4, 4, 4};
  adopt(fragment, 0.25, anchor, local);
  EXPECT_EQ(local, (std::vector<float>{7, 4, 7}));
  local[0] = NAN;  // nothing of a dropped value is left
  adopt(fragment, 0, anchor, local);
  EXPECT_EQ(local, (std::vector<float>{8, 4, 8}));
}

}  // namespace
}  // namespace shoal::outer_opt
