// What the checker makes of a contribution that a reducer, which owns the whole vector, averaged
// without.
#include <gtest/gtest.h>

#include "tests/sim/checkers/checker_test_util.h"

namespace shoal::sim {
namespace {

using coordinator::ContributionRecord;
using coordinator::ContributionState;
using coordinator::RejectReason;
using coordinator::RoundRecord;
using coordinator::RoundState;

constexpr ReplicaId kStays{1}, kDies{2}, kReducer{3};

// Replica 1 contributes 2 and 4; replica 2 dies before it begins.
struct Reduced : CheckerRig {
  Reduced() : CheckerRig(make_recomputation) {
    plan.key = key;
    plan.attempt = 1;
    plan.codec = CodecKind::kFp32;
    plan.value_count = 2;
    plan.members = {{kStays, "a:1", 1}, {kDies, "b:1", 1}, {kReducer, "c:1", 0, 1, 0, 2, true}};
    checker->contributed({kStays, 0, plan, {}, {}, values, spec, {}, {}, values, {}});
    checker->averaged({kStays, 0, key, 1, digest, values});
    checker->excluded({kStays, plan, {}});
  }
  void reducer_is_done(const std::vector<ReplicaId>& without) {
    checker->excluded({kReducer, plan, without});
  }
  void commit(ContributionState of_the_dead) {
    RoundRecord round;
    round.key = key;
    round.state = RoundState::kCommitted;
    round.reduces.resize(1);
    round.reduces[0].attempt = 1;
    round.reduces[0].average = digest;
    add(kStays, ContributionState::kCommitted);
    add(kDies, of_the_dead);
    checker->durable(round, Tables{});
    checker->written(tables);
  }
  void add(ReplicaId replica, ContributionState state) {
    ContributionRecord& record = tables.contributions[{key, replica}];
    record.key = key;
    record.replica = replica;
    record.state = state;
    if (state == ContributionState::kRejected) record.reject_reason = RejectReason::kExcluded;
  }

  RoundKey key{JobId(1), 0, 2};
  ReducePlan plan;
  JobSpec spec;
  std::vector<float> values{2, 4};
  Digest digest{1, 1};
  Tables tables;
};

TEST(Recomputation, WhoWasExcludedDoesNotCount) {
  Reduced r;
  r.reducer_is_done({kDies});
  r.commit(ContributionState::kRejected);
  EXPECT_FALSE(r.broken) << r.broken->what;
}

TEST(Recomputation, AnOwnerThatHasSaidNothingMayHaveLeftItOut) {
  Reduced r;
  r.commit(ContributionState::kRejected);
  EXPECT_FALSE(r.broken) << r.broken->what;
}

TEST(Recomputation, WhoWasExcludedMustNotCount) {
  Reduced r;
  r.reducer_is_done({kDies});
  r.commit(ContributionState::kCommitted);
  EXPECT_TRUE(r.broken);
}

// A replica that trains alone is not clipped, whatever its plan says of the freeze with others.
TEST(Recomputation, ARobustAverageOfOneAloneIsWhatItSent) {
  for (const bool alone : {false, true}) {
    Reduced r;
    if (alone) r.spec.sync.algorithm = SyncAlgorithm::kNone;
    r.plan.aggregator = Aggregator::kTrimmedMean;
    r.plan.members = {{kStays, "a:1", 1, 0.5, 0, 2}};
    r.checker->contributed({kStays, 0, r.plan, {}, {}, r.values, r.spec, {}, {}, r.values, {}});
    r.commit(ContributionState::kRejected);
    EXPECT_EQ(r.broken.has_value(), !alone);
  }
}

TEST(Recomputation, TheAverageIsThatOfWhatCounts) {
  Reduced r;
  r.values = {2, 5};
  r.checker->averaged({kStays, 0, r.key, 1, r.digest, r.values});
  r.reducer_is_done({kDies});
  r.commit(ContributionState::kRejected);
  EXPECT_TRUE(r.broken);
}

}  // namespace
}  // namespace shoal::sim
