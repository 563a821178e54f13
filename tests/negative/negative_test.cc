// Each planted bug must be caught within a number of seeds, and by the checker that stands beside
// it in the registry: a checker without a bug that it catches is a comment, not a check.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/negative/bugs.h"
#include "tests/sim/campaign.h"

namespace shoal::sim {
namespace {

constexpr std::int64_t kSeeds = 300;  // most are caught by the first few

class PlantedBugTest : public testing::TestWithParam<PlantedBug> {};

TEST_P(PlantedBugTest, IsCaughtByItsChecker) {
  EXPECT_EQ(catch_bug(GetParam(), kSeeds), "") << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugTest, testing::ValuesIn(planted_bugs()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Checkers, EachHasAPlantedBug) {
  std::set<std::string> caught;
  for (const PlantedBug& bug : planted_bugs()) caught.insert(std::string(bug.checker));
  const Sim sim(calm_options(1), Bug::kNone, false);
  for (const auto& checker : sim.checkers) {
    EXPECT_TRUE(caught.contains(checker->name())) << checker->name();
  }
}

}  // namespace
}  // namespace shoal::sim
