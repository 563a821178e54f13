#include "job/mixture_order.h"

#include <cmath>

#include <gtest/gtest.h>

namespace shoal {
namespace {

std::vector<std::int64_t> counts_of(const MixtureOrder& order, std::int64_t datasets,
                                    std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(datasets));
  for (std::int64_t i = first; i < first + count; ++i) {
    ++counts[static_cast<std::size_t>(order.place_of(i).dataset)];
  }
  return counts;
}

TEST(MixtureOrder, AMillionSequencesHaveTheWeights) {
  const MixtureOrder order({0.7, 0.2, 0.1}, 1);
  const auto counts = counts_of(order, 3, 0, 1'000'000);
  EXPECT_NEAR(static_cast<double>(counts[0]), 700'000, 700);
  EXPECT_NEAR(static_cast<double>(counts[1]), 200'000, 200);
  EXPECT_NEAR(static_cast<double>(counts[2]), 100'000, 100);
}

TEST(MixtureOrder, WholeBlocksHaveThemToWithinASequence) {
  const std::vector<double> weights{3, 0.01, 1.5, 2.0 / 3};
  const MixtureOrder order(weights, 9);
  std::vector<std::int64_t> sums(4);
  for (std::int64_t block = 0; block < 20; ++block) {
    const auto counts = counts_of(order, 4, block * MixtureOrder::kBlock, MixtureOrder::kBlock);
    for (std::size_t i = 0; i < 4; ++i) {
      sums[i] += counts[i];
      const double exact = order.share(static_cast<std::int64_t>(i)) *
                           static_cast<double>((block + 1) * MixtureOrder::kBlock);
      EXPECT_NEAR(static_cast<double>(sums[i]), exact, 1.01) << i << " in " << block;
    }
  }
}

TEST(MixtureOrder, EachDatasetIsReadInItsOrderAndNoneIsLeftOut) {
  const MixtureOrder order({0.7, 0.2, 0.1}, 1);
  std::vector<std::int64_t> next(3);
  for (std::int64_t i = 0; i < 3 * MixtureOrder::kBlock; ++i) {
    const MixturePlace place = order.place_of(i);
    ASSERT_EQ(place.sequence, next[static_cast<std::size_t>(place.dataset)]++) << i;
  }
}

TEST(MixtureOrder, IsTheSameAfterARestartAndFromAnyPlace) {
  const MixtureOrder order({1, 1}, 4), again({1, 1}, 4), other({1, 1}, 5);
  int equal = 0;
  for (const std::int64_t i : {200'000, 5, 70'000, 69'999, 0, 200'001}) {
    EXPECT_EQ(order.place_of(i), again.place_of(i)) << i;
  }
  for (std::int64_t i = 0; i < 1'000; ++i) {
    equal += order.place_of(i).dataset == other.place_of(i).dataset;
  }
  EXPECT_LT(equal, 600) << "another seed, another order";
}

TEST(MixtureOrder, IsShuffledWithinABlock) {
  const MixtureOrder order({0.5, 0.5}, 4);
  const auto counts = counts_of(order, 2, 1'000, 1'000);
  EXPECT_NEAR(static_cast<double>(counts[0]), 500, 80);
}

TEST(MixtureOrder, OneDatasetIsAllOfIt) {
  const MixtureOrder order({2}, 4);
  for (const std::int64_t i : {0, 99, 65'536, 1'000'000}) {
    EXPECT_EQ(order.place_of(i), (MixturePlace{0, i}));
  }
}

}  // namespace
}  // namespace shoal
