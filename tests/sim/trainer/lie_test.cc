#include "tests/sim/trainer/lie.h"

#include <gtest/gtest.h>

namespace shoal::sim {
namespace {

ReducePlan plan_of(RoundNumber round, std::int32_t attempt = 1) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, round};
  plan.attempt = attempt;
  return plan;
}

ReducePlan audit_of(RoundNumber round) {
  ReducePlan plan = plan_of(round, 2);
  plan.audited.push_back({ReplicaId(1), ReplicaId(2), 0, 8});
  return plan;
}

TEST(Lie, GoesOnInTheAttemptsAndAuditsOfItsRound) {
  Lie lie;
  lie.intend(Fault::kFalseNorm);
  EXPECT_FALSE(lie.is_under_way());
  EXPECT_EQ(lie.tell(Fault::kFalseNorm, plan_of(3)), Lie::Told::kBegins);
  EXPECT_TRUE(lie.is_under_way());
  EXPECT_EQ(lie.tell(Fault::kFalseNorm, audit_of(3)), Lie::Told::kGoesOn);
  EXPECT_EQ(lie.tell(Fault::kFalseNorm, plan_of(3, 3)), Lie::Told::kGoesOn);
  EXPECT_EQ(lie.tell(Fault::kFalseNorm, plan_of(4)), Lie::Told::kNo);
}

TEST(Lie, BeginsInAnAuditOnlyWhereItIsAboutAverages) {
  Lie lie;
  lie.intend(Fault::kFalseNorm);
  EXPECT_EQ(lie.tell(Fault::kFalseNorm, audit_of(3)), Lie::Told::kNo);
  EXPECT_EQ(lie.tell(Fault::kFalseNorm, plan_of(4)), Lie::Told::kBegins);
  lie.end();
  lie.intend(Fault::kFalseAverage);
  EXPECT_EQ(lie.tell(Fault::kFalseAverage, audit_of(5)), Lie::Told::kBegins);
}

// Else nobody would be shown the second one.
TEST(Lie, IsNotReplacedWhileItIsUnderWay) {
  Lie lie;
  lie.intend(Fault::kFalseNorm);
  lie.tell(Fault::kFalseNorm, plan_of(3));
  lie.intend(Fault::kFalseAverage);
  EXPECT_EQ(lie.tell(Fault::kFalseAverage, plan_of(3, 2)), Lie::Told::kNo);
  lie.end();
  EXPECT_EQ(lie.tell(Fault::kFalseNorm, plan_of(3, 2)), Lie::Told::kNo);
  lie.intend(Fault::kFalseAverage);
  EXPECT_EQ(lie.tell(Fault::kFalseAverage, plan_of(4)), Lie::Told::kBegins);
}

}  // namespace
}  // namespace shoal::sim
