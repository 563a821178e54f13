#include "coordinator/core/decisions/audit.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr ReplicaId kOwner{1}, kSecond{2}, kOther{3};

AuditInput three_members() {
  return {{{kOwner, kSecond, 0, 10}, {kOwner, kSecond, 20, 10}, {kSecond, kOther, 40, 10}},
          {},
          {{}, {}, {}}};
}

TEST(Audit, WhereNothingDiffersTheAverageIsConfirmed) {
  EXPECT_EQ(judge_audit(three_members()).verdict, AuditVerdict::kConfirmed);
}

TEST(Audit, WhatMostSeeGoesToAThird) {
  AuditInput input = three_members();
  input.disputed[0] = {kOwner};
  EXPECT_EQ(judge_audit(input).verdict, AuditVerdict::kConfirmed) << "one of three says so";
  input.disputed[2] = {kOwner};
  const AuditDecision decision = judge_audit(input);
  EXPECT_EQ(decision.verdict, AuditVerdict::kAskThird);
  EXPECT_EQ(decision.owner, kOwner);
  EXPECT_EQ(decision.second, kSecond);
}

TEST(Audit, OfTwoTheThirdNamesTheFalseOne) {
  AuditInput input{{{kOwner, kOther, 0, 10}}, {kOwner, kSecond}, {{}, {}, {}}};
  AuditDecision decision = judge_audit(input);
  EXPECT_EQ(decision.verdict, AuditVerdict::kFalse);
  EXPECT_EQ(decision.named, kSecond) << "the third made the owner's average";
  input.disputed = {{kOwner}, {}, {kOwner}};
  decision = judge_audit(input);
  EXPECT_EQ(decision.verdict, AuditVerdict::kFalse);
  EXPECT_EQ(decision.named, kOwner);
}

}  // namespace
}  // namespace shoal::coordinator
