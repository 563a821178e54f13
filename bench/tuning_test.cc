// The sweep finds a valley on either side of where it begins.
#include "bench/tuning.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace shoal::bench {
namespace {

TEST(Tuning, FindsTheValleyOnEitherSideAndTriesNothingTwice) {
  for (const double best : {1.0, 8.0, 0.125}) {
    std::multiset<double> tried;
    const double found = tune(1.0, [&](double lr) {
      tried.insert(lr);
      return std::fabs(std::log2(lr / best));
    });
    EXPECT_EQ(found, best);
    for (const double lr : tried) EXPECT_EQ(tried.count(lr), 1u);
  }
  EXPECT_LE(tune(1.0, [](double lr) { return 1 / lr; }), 64);  // no valley: bounded
}

}  // namespace
}  // namespace shoal::bench
