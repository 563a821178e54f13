// Blocks from one session to the next.
#include "outer_opt/core/reduce/spare_values.h"

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

TEST(SpareValues, TheBlockThatWasUsedLastComesFirst) {
  SpareValues spare;
  auto one = spare.take(10), two = spare.take(10);
  const float* const last = two.get();
  spare.give_back(std::move(one));
  spare.give_back(std::move(two));
  EXPECT_EQ(spare.take(10).get(), last);
}

TEST(SpareValues, BlocksOfAnotherSizeAreFreed) {
  SpareValues spare;
  spare.give_back(spare.take(10));
  spare.give_back(spare.take(20));
  std::vector<std::size_t> sizes;
  spare.visit([&](std::span<float> block) { sizes.push_back(block.size()); });
  EXPECT_EQ(sizes, (std::vector<std::size_t>{20}));
}

}  // namespace
}  // namespace shoal::outer_opt
