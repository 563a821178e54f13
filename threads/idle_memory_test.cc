#include "threads/idle_memory.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>

namespace shoal {
namespace {

constexpr std::size_t kValues = 1 << 20;

TEST(IdleMemory, OnlyTheForgottenValuesChangeAndCanBeUsedAgain) {
  std::vector<float> values(kValues, 1.0f);
  const std::span<float> forgotten = std::span(values).subspan(1000, kValues - 3000);
  forget_values(forgotten);
  EXPECT_EQ(std::count(values.begin(), values.begin() + 1000, 1.0f), 1000);
  EXPECT_EQ(std::count(values.end() - 2000, values.end(), 1.0f), 2000);
  EXPECT_TRUE(std::ranges::all_of(forgotten, [](float v) { return v == 1 || v == 0; }));
  std::ranges::fill(forgotten, 2.0f);
  EXPECT_EQ(std::count(values.begin(), values.end(), 2.0f), kValues - 3000);
}

TEST(IdleMemory, WhatFitsInNoPageStays) {
  std::vector<float> values(100, 1.0f);
  forget_values(values);
  EXPECT_THAT(values, testing::Each(1.0f));
}

TEST(IdleMemory, TheSystemMayHaveIt) {
  std::vector<float> values(kValues, 1.0f);
  forget_values(values);
  const std::size_t idle = idle_bytes();
  if (idle == 0) GTEST_SKIP() << "this system has no lazily freed pages, or does not count them";
  EXPECT_GE(idle, kValues * sizeof(float) / 2);
}

}  // namespace
}  // namespace shoal
