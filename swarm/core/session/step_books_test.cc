#include "swarm/core/session/step_books.h"

#include <gtest/gtest.h>

#include "base/field_digest.h"

namespace shoal::swarm {
namespace {

constexpr Microbatch kMicrobatch{1, 4, ReplicaId(7), 0, PassKind::kTrain};

TEST(StepBooks, TwoStepsHaveABookEach) {
  StepBooks books;
  books.of(4).tokens = Tokens(10);
  books.of(5).tokens = Tokens(3);
  books.of(4).live = 1;
  books.of(5).live = 2;
  EXPECT_EQ(books.live(), 3);
  EXPECT_EQ(books.take(4), Tokens(10));
  EXPECT_EQ(books.take(4), Tokens(0)) << "taken once";
  EXPECT_EQ(books.take(5), Tokens(3));
  EXPECT_EQ(books.taken(), Tokens(13));
  books.forget_taken();
  EXPECT_EQ(books.taken(), Tokens(0));
}

TEST(StepBooks, AClosedStepLeavesAnEmptyBookForTheOneAfterTheNext) {
  StepBooks books;
  books.of(4).drawn = 3;
  books.of(4).ledger.of(kMicrobatch) = {.sends = 2, .forwards = 1, .added = true};
  books.close(4);
  EXPECT_EQ(books.of(6).drawn, 0);
  EXPECT_EQ(books.of(6).ledger.of(kMicrobatch).sends, 0);
  EXPECT_FALSE(books.of(6).ledger.of(kMicrobatch).added);
}

TEST(StepBooks, AStepIsNotClosedWithWorkInIt) {
  StepBooks live, tokens;
  live.of(0).live = 1;
  EXPECT_DEATH(live.close(0), "left unfinished");
  tokens.of(0).tokens = Tokens(1);
  EXPECT_DEATH(tokens.close(0), "left unfinished");
}

// After an abort the same step is trained on: gradients are added again, attempts keep counting.
TEST(StepBooks, AStepThatBeginsAgainKeepsItsAttempts) {
  StepBooks books;
  books.of(4).drawn = 3;
  books.of(4).ledger.of(kMicrobatch) = {.sends = 2, .forwards = 1, .added = true};
  books.begin_again(4);
  EXPECT_EQ(books.of(4).drawn, 0);
  EXPECT_EQ(books.of(4).ledger.of(kMicrobatch).sends, 2);
  EXPECT_FALSE(books.of(4).ledger.of(kMicrobatch).added);
}

TEST(StepBooks, EveryEntryIsInTheDigest) {
  StepBooks books;
  const Digest empty = digest_of_fields(books);
  books.of(4).ledger.of(kMicrobatch).added = true;
  EXPECT_NE(digest_of_fields(books), empty);
  books.clear();
  EXPECT_EQ(digest_of_fields(books), empty);
}

}  // namespace
}  // namespace shoal::swarm
