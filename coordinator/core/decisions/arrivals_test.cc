// What a round of an asynchronous job counts for, in whole numbers and by hand.
#include "coordinator/core/decisions/arrivals.h"

#include <cmath>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Arrivals, NContributionsAreOneRoundOfEverybody) {
  Steps at;
  std::int64_t carried = 0;
  double kept = 1;
  JobSpec spec;
  spec.train.steps = Steps(1000);
  change_sync(spec, [](SyncSpec& sync) { sync.every = Steps(50); });
  for (int round = 1; round <= 12; ++round) {
    const Arrived arrived = count_arrivals(at, carried, {3, 1, 50});
    EXPECT_DOUBLE_EQ(arrived.share, 1.0 / 3);
    kept *= terms_of(spec, arrived.share, at, arrived.to_step).decay;
    at = arrived.to_step, carried = arrived.carried_steps;
    EXPECT_EQ(at.count() * 3 + carried, 50 * round);
  }
  EXPECT_EQ(at, Steps(200));
  EXPECT_NEAR(kept, std::pow(spec.sync.outer.momentum, 4), 1e-12);
}

TEST(Arrivals, ARoundOfEverybodyIsOneRenewal) {
  JobSpec spec;
  change_sync(spec, [](SyncSpec& sync) { sync.every = Steps(50); });
  const outer_opt::DelayedTerms terms = terms_of(spec, 1, Steps(100), Steps(150));
  EXPECT_EQ(terms.decay, spec.sync.outer.momentum);
  EXPECT_EQ(terms.push, spec.sync.outer.momentum);
  EXPECT_EQ(terms_of(spec, 1, Steps(100), Steps(100)).push, 0);
}

TEST(Arrivals, WithoutAContributionNothingMoves) {
  const Arrived arrived = count_arrivals(Steps(7), 2, {4, 0, 0});
  EXPECT_EQ(arrived.to_step, Steps(7));
  EXPECT_EQ(arrived.carried_steps, 2);
  EXPECT_EQ(arrived.share, 0);
}

}  // namespace
}  // namespace shoal::coordinator
