#include "swarm/core/microbatch_ledger.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

TEST(RouterLedger, CountsEachMicrobatchOnce) {
  RouterLedger ledger({}, {});
  ledger.open_step(1, 2);
  const MicrobatchKey a = ledger.admit(), b = ledger.admit();
  EXPECT_FALSE(ledger.can_admit());
  EXPECT_EQ(ledger.answer(a), AnswerVerdict::kCounted);
  EXPECT_EQ(ledger.answer(a), AnswerVerdict::kStale);
  EXPECT_FALSE(ledger.complete());
  EXPECT_EQ(ledger.answer(b), AnswerVerdict::kCounted);
  EXPECT_TRUE(ledger.complete());
  ledger.open_step(2, 1);
  EXPECT_EQ(ledger.answer(b), AnswerVerdict::kStale);
  EXPECT_EQ(ledger.stale(), 2);
}

TEST(RouterLedger, NewAttemptSupersedesTheOld) {
  RouterLedger ledger({}, {});
  ledger.open_step(1, 1);
  const MicrobatchKey first = ledger.admit();
  const Retry retry = ledger.retry({}, first, RetryCause::kReplicaLost);
  ASSERT_EQ(retry.verdict, RetryVerdict::kRetry);
  EXPECT_EQ(retry.key.attempt, 2);
  EXPECT_EQ(ledger.retry({}, first, RetryCause::kReplicaLost).verdict, RetryVerdict::kStale);
  EXPECT_EQ(ledger.answer(first), AnswerVerdict::kStale);
  EXPECT_EQ(ledger.answer(retry.key), AnswerVerdict::kCounted);
}

TEST(RouterLedger, TimeoutAloneNeverSendsAgain) {
  RouterLedger ledger({}, {});
  ledger.open_step(1, 1);
  const MicrobatchKey key = ledger.admit();
  EXPECT_EQ(ledger.retry({}, key, RetryCause::kTimeout).verdict, RetryVerdict::kNotCancelled);
  EXPECT_EQ(ledger.retry({}, key, RetryCause::kCancelled).verdict, RetryVerdict::kRetry);
}

TEST(RouterLedger, RetriesHaveABudgetThatComesBack) {
  RouterLedger ledger({.per_microbatch = 0, .per_s = 0.5, .burst = 2}, {});
  ledger.open_step(1, 1);
  MicrobatchKey key = ledger.admit();
  for (int i = 0; i < 2; ++i) key = ledger.retry({}, key, RetryCause::kReplicaLost).key;
  EXPECT_EQ(ledger.retry({}, key, RetryCause::kReplicaLost).verdict, RetryVerdict::kBudgetSpent);
  const Instant later = Instant{} + seconds(2);
  EXPECT_EQ(ledger.retry(later, key, RetryCause::kReplicaLost).verdict, RetryVerdict::kRetry);
  EXPECT_EQ(ledger.retries(), 3);
}

TEST(ReplicaLedger, AddsEachGradientOnce) {
  ReplicaLedger ledger(5);
  ledger.admit_sender(AgentId(1), Incarnation{3});
  const auto accept = [&](std::int64_t step, std::int32_t microbatch, std::int32_t attempt) {
    return ledger.accept({step, microbatch, attempt}, AgentId(1), Incarnation{3});
  };
  EXPECT_EQ(accept(5, 7, 1), GradientVerdict::kAdd);
  EXPECT_EQ(accept(5, 2, 1), GradientVerdict::kAdd);
  EXPECT_EQ(accept(5, 7, 2), GradientVerdict::kAnswerOnly);
  EXPECT_EQ(accept(4, 7, 1), GradientVerdict::kOldStep);
  EXPECT_EQ(accept(6, 7, 1), GradientVerdict::kFutureStep);
  EXPECT_EQ(ledger.added(), 2);
  ledger.next_step();
  EXPECT_EQ(accept(6, 7, 1), GradientVerdict::kAdd);
  EXPECT_EQ(ledger.count(GradientVerdict::kAdd), 3);
}

TEST(ReplicaLedger, FencesOldIncarnationsAndStrangers) {
  ReplicaLedger ledger(1);
  ledger.admit_sender(AgentId(1), Incarnation{3});
  ledger.admit_sender(AgentId(1), Incarnation{2});  // a view from the past
  EXPECT_EQ(ledger.accept({1, 0, 1}, AgentId(1), Incarnation{2}), GradientVerdict::kOldIncarnation);
  EXPECT_EQ(ledger.accept({1, 0, 1}, AgentId(2), Incarnation{1}), GradientVerdict::kOldIncarnation);
  EXPECT_EQ(ledger.added(), 0);
}

}  // namespace
}  // namespace shoal::swarm
