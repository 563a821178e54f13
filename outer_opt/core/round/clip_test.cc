#include "outer_opt/core/round/clip.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::outer_opt {
namespace {

TEST(Clip, NormsAboveTheMedianBecomeTheMedian) {
  EXPECT_EQ(clip_factors({4, 2}), (std::vector<double>{0.75, 1}));  // the median is 3
  EXPECT_EQ(clip_factors({1, 10, 2}), (std::vector<double>{1, 0.2, 1}));
}

TEST(Clip, TheMedianOfManyIsTheMiddleOne) {
  EXPECT_EQ(median({50, 1, 40, 2, 30}), 30);
  EXPECT_EQ(median({50, 1, 40, 2}), 21);
  EXPECT_EQ(clip_factors({1, 2, 4, 8, 16}), (std::vector<double>{1, 1, 1, 0.5, 0.25}));
}

// Norms are as small as a late pseudo-gradient makes them.
TEST(Clip, SmallNormsAreClippedAsLargeOnes) {
  EXPECT_EQ(clip_factors({0.125, 0.5, 0.125}), (std::vector<double>{1, 0.25, 1}));
}

TEST(Clip, NobodyAndNothingAreLeftAlone) {
  EXPECT_TRUE(clip_factors({}).empty());
  EXPECT_EQ(clip_factors({0, 0, 5}), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(clip_factors({7}), (std::vector<double>{1}));
  EXPECT_EQ(clip_factors({0, 0, 0, 1, 4, 2}), (std::vector<double>{1, 1, 1, 1, 0.5, 1}));
}

using Numbers = std::vector<double>;

// Pseudo-gradients of `work` steps that grow like work^power, each up to a tenth off.
Numbers grown(Prng& prng, const Numbers& work, double power) {
  Numbers norms;
  for (const double steps : work) {
    norms.push_back(std::pow(steps, power) * (0.95 + 0.1 * prng.unit()));
  }
  return norms;
}

Numbers factors_of(const Numbers& norms, const Numbers& work) {
  return clip_factors(norms_at_equal_work(norms, work));
}

TEST(EqualWork, ThePowerOfTheRoundIsFound) {
  const Numbers work = {100, 25, 25, 25};
  for (const double power : {0.5, 0.7, 1.0}) {
    const Numbers norms = {std::pow(4, power), 1, 1, 1};
    EXPECT_NEAR(growth_of_norms(norms, work), power, 1e-12);
    for (const double factor : factors_of(norms, work)) EXPECT_NEAR(factor, 1, 1e-12);
  }
}

TEST(EqualWork, EqualWorkChangesNoFactor) {
  const Numbers norms = {1, 10, 2, 3}, work(4, 50);
  const Numbers factors = factors_of(norms, work), plain = clip_factors(norms);
  for (std::size_t i = 0; i < norms.size(); ++i) EXPECT_NEAR(factors[i], plain[i], 1e-12);
}

// Without the fit the fast one of 4:1:1:1 is clipped to 0.38, its share of the work.
TEST(EqualWork, NobodyHonestIsClippedByMuch) {
  Prng prng(1);
  for (const Numbers& work :
       {Numbers{40, 10}, Numbers{40, 10, 10, 10}, Numbers{10, 40, 40, 40}, Numbers{10, 20, 30, 40},
        Numbers{61, 60, 59, 12}, Numbers{1, 80, 81, 79}}) {
    for (const double power : {0.5, 0.6, 0.7, 0.8, 0.9, 1.0}) {
      for (int round = 0; round < 100; ++round) {
        for (const double factor : factors_of(grown(prng, work, power), work)) {
          EXPECT_GT(factor, 0.8) << work.front() << " " << power;
        }
      }
    }
  }
}

// A member that sends ten times too much keeps only the possible error of the fit, a factor of 2 at
// 4:1, whether it is fast or slow.
TEST(EqualWork, AnAttackerIsStillClipped) {
  Prng prng(2);
  for (const Numbers& work : {Numbers{40, 10, 10, 10}, Numbers{10, 40, 40, 40}}) {
    for (std::size_t attacker = 0; attacker < work.size(); ++attacker) {
      for (const double power : {0.5, 0.7, 0.9}) {
        Numbers norms = grown(prng, work, power);
        norms[attacker] *= 10;
        const double left = 10 * factors_of(norms, work)[attacker];
        EXPECT_LT(left, std::pow(4, kGrowthMax - kGrowthMin) * 1.1) << attacker << " " << power;
      }
    }
  }
}

TEST(EqualWork, NothingAndNoWorkAreNoTrouble) {
  EXPECT_EQ(growth_of_norms({}, {}), kGrowthMin);
  EXPECT_TRUE(norms_at_equal_work({}, {}).empty());
  EXPECT_EQ(factors_of({0, 0, 0}, {4, 1, 0}), Numbers(3, 1.0));
  EXPECT_EQ(norms_at_equal_work(Numbers{7}, Numbers{0}), Numbers{7});
}

}  // namespace
}  // namespace shoal::outer_opt
