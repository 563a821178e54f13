#include "outer_opt/core/joining/average_log.h"

#include <gtest/gtest.h>

#include "outer_opt/core/joining/joining_test_util.h"

namespace shoal::outer_opt {
namespace {

StepTerms terms_of(RoundNumber round, std::int32_t fragment = 0) {
  return {.round = round, .fragment = fragment, .outer_lr = 0.5};
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

std::vector<float> decoded(const AverageSlice& slice) {
  std::vector<float> all;
  for (const AverageSegment& segment : slice.segments) {
    std::vector<float> values(static_cast<std::size_t>(segment.count));
    const auto& [form, bytes] = segment.values;
    EXPECT_TRUE(decode_exactly(slice.codec, form, bytes, values).ok());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(AverageLog, GivesTheSegmentsThatHaveARunOfTheFragment) {
  AverageLog log(1 << 20);
  const Fragment fragment = {{100, 10'000}, {20'000, 30'000}};
  log.add(terms_of(5, 2), fragment, CodecKind::kFp32, {}, read_from(ramp(40'000)));
  const std::vector<AverageSlice> slices = log.after(4, {15'000, 10'000}, 1);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].terms, terms_of(5, 2));
  ASSERT_FALSE(slices[0].segments.empty());
  const std::int64_t first = slices[0].segments.front().first;
  EXPECT_LE(first, 10'000);
  const std::vector<float> values = decoded(slices[0]);
  EXPECT_GE(first + std::ssize(values), 15'000);
  EXPECT_EQ(values.front(), static_cast<float>(first));
  EXPECT_TRUE(log.after(4, {12'000, 5}, 1)[0].segments.empty());  // between the two ranges
}

TEST(AverageLog, KeepsTheNewestRoundsWithinItsLimit) {
  AverageLog log(3 * 4'000);
  const Fragment whole = {{0, 1'000}};
  for (RoundNumber round = 1; round <= 5; ++round) {
    log.add(terms_of(round), whole, CodecKind::kFp32, {}, read_from(ramp(1'000)));
    EXPECT_LE(log.bytes(), 12'000u);
  }
  EXPECT_FALSE(log.follows(1));
  EXPECT_TRUE(log.follows(2));
  EXPECT_TRUE(log.follows(5));
  EXPECT_FALSE(log.follows(6));
  EXPECT_EQ(log.after(2, {0, 1'000}, 1 << 20).size(), 3u);
  EXPECT_EQ(log.after(2, {0, 1'000}, 1).size(), 1u);
}

TEST(AverageLog, BeginsAnewAfterAGap) {
  AverageLog log(1 << 20);
  const Fragment whole = {{0, 10}};
  log.add(terms_of(1), whole, CodecKind::kFp32, {}, read_from(ramp(10)));
  log.add(terms_of(3), whole, CodecKind::kFp32, {}, read_from(ramp(10)));
  EXPECT_FALSE(log.follows(0));
  EXPECT_TRUE(log.follows(2));
  log.add_empty(4);
  EXPECT_EQ(log.after(2, {0, 10}, 1 << 20).size(), 2u);
  EXPECT_TRUE(log.after(3, {0, 10}, 1)[0].is_empty);
}

TEST(AverageLog, FindsARunInAPackedFragment) {
  const Fragment fragment = {{10, 5}, {20, 10}, {50, 1}};
  EXPECT_EQ(packed_range(fragment, {0, 100}), (ValueRange{0, 16}));
  EXPECT_EQ(packed_range(fragment, {12, 10}), (ValueRange{2, 5}));
  EXPECT_EQ(packed_range(fragment, {30, 30}), (ValueRange{15, 1}));
  EXPECT_EQ(packed_range(fragment, {15, 5}).count, 0);
}

}  // namespace
}  // namespace shoal::outer_opt
