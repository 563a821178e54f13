// When an agent stops trying the object store, and when it begins again.
#include "agent/host/store_reach.h"

#include <gtest/gtest.h>

namespace shoal::agent {
namespace {

constexpr Instant kNow{1'000'000'000'000};
using Transfer = StoreReach::Transfer;

TEST(StoreReach, WhereNothingMovesTheCoordinatorCarriesForAWhile) {
  StoreReach reach;
  EXPECT_TRUE(reach.is_direct(kNow));
  EXPECT_TRUE(reach.learn({.failure = Code::kUnavailable}, kNow));
  EXPECT_FALSE(reach.is_direct(kNow));
  EXPECT_FALSE(reach.is_direct(kNow + StoreReach::kCarriedFor - milliseconds(1)));
  EXPECT_TRUE(reach.is_direct(kNow + StoreReach::kCarriedFor));
}

TEST(StoreReach, ATransferThatStandsStillCountsWhateverItsEndIsCalled) {
  StoreReach reach;
  EXPECT_TRUE(reach.learn({.stalled = true, .failure = Code::kCancelled}, kNow));
  EXPECT_FALSE(reach.is_direct(kNow));
}

TEST(StoreReach, WhatMovesOrAnswersIsInReach) {
  StoreReach reach;
  EXPECT_FALSE(reach.learn({}, kNow)) << "all was sent";
  EXPECT_FALSE(reach.learn({.moved = true, .failure = Code::kUnavailable}, kNow)) << "a bad line";
  EXPECT_FALSE(reach.learn({.failure = Code::kDataLoss}, kNow)) << "a file of this host";
  EXPECT_FALSE(reach.learn({.failure = Code::kCancelled}, kNow)) << "no longer wanted";
  EXPECT_TRUE(reach.is_direct(kNow));
}

TEST(StoreReach, WhereTheCoordinatorMovesNothingEitherTheStoreIsTriedAgain) {
  StoreReach reach;
  reach.learn({.failure = Code::kDeadlineExceeded}, kNow);
  EXPECT_FALSE(reach.learn({.direct = false, .moved = true, .failure = Code::kUnavailable}, kNow));
  EXPECT_FALSE(reach.learn({.direct = false, .failure = Code::kConflict}, kNow)) << "it is busy";
  EXPECT_FALSE(reach.is_direct(kNow));
  EXPECT_FALSE(reach.learn({.direct = false, .failure = Code::kUnavailable}, kNow));
  EXPECT_TRUE(reach.is_direct(kNow));
}

}  // namespace
}  // namespace shoal::agent
