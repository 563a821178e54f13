// Visits of parameters that only whole reads and writes can reach.
#include "replica/core/local_parameters.h"

#include <gtest/gtest.h>

#include "replica/core/replica_test_util.h"

namespace shoal::replica {
namespace {

TEST(LocalParameters, WithoutAccessInPlaceTheyAreVisitedAndChangedInACopy) {
  VectorParameters local({1, 2, 3});
  std::vector<float> seen;
  local.LocalParameters::visit_parameters([&](std::int64_t first, std::span<const float> run) {
    EXPECT_EQ(first, std::ssize(seen));
    seen.insert(seen.end(), run.begin(), run.end());
  });
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
  local.LocalParameters::change_parameters([&](std::int64_t first, std::span<float> run) {
    for (float& value : run) value += static_cast<float>(10 * ++first);
  });
  EXPECT_EQ(local.values, (std::vector<float>{11, 22, 33}));
}

}  // namespace
}  // namespace shoal::replica
