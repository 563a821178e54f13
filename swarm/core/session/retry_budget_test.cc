#include "swarm/core/session/retry_budget.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

int taken(RetryTokens& tokens, Instant now, int wanted) {
  int count = 0;
  while (count < wanted && tokens.take(now)) ++count;
  return count;
}

TEST(RetryTokens, ABurstThenSoManyASecond) {
  Instant now{0};
  RetryTokens tokens(now, {.per_microbatch = 0.1, .per_s = 2, .burst = 5});
  EXPECT_EQ(taken(tokens, now, 100), 5);
  now = now + seconds(3);
  EXPECT_EQ(taken(tokens, now, 100), 6 - 1) << "never more than the burst";
  now = now + seconds(1);
  EXPECT_EQ(taken(tokens, now, 100), 2);
}

TEST(RetryTokens, ATenthOfWhatIsAdmittedMayBeSentAgain) {
  const Instant now{0};
  RetryTokens tokens(now, {.per_microbatch = 0.25, .per_s = 1, .burst = 8});
  taken(tokens, now, 8);
  for (int i = 0; i < 12; ++i) tokens.admitted();
  EXPECT_EQ(taken(tokens, now, 100), 3);
}

TEST(RetryTokens, NextIsWhenATokenIsThere) {
  Instant now{0};
  RetryTokens tokens(now, {.per_microbatch = 0.1, .per_s = 1, .burst = 1});
  EXPECT_LE(tokens.next(), now + milliseconds(1));
  ASSERT_TRUE(tokens.take(now));
  EXPECT_FALSE(tokens.take(tokens.next() + milliseconds(-500)));
  EXPECT_TRUE(tokens.take(tokens.next()));
}

}  // namespace
}  // namespace shoal::swarm
