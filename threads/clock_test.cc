#include "threads/clock.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(UnixClock, StartsAtTheHostsTime) {
  const Instant host = unix_now();
  const UnixClock clock;
  EXPECT_GE(clock.now(), host);
  EXPECT_LT(clock.now(), host + seconds(60));
  EXPECT_GT(host.ns, 1'700'000'000'000'000'000) << "nanoseconds since 1970";
}

// A coordinator whose host's clock was set back, with newer instants in its records.
TEST(UnixClock, NeverStartsBeforeTheGivenInstant) {
  const Instant newest = UnixClock().now() + seconds(3600);
  const UnixClock clock(newest);
  EXPECT_GE(clock.now(), newest);
  EXPECT_LT(clock.now(), newest + seconds(60));
}

TEST(UnixClock, DeadlinesAreAsFarAwayAsTheirInstants) {
  const UnixClock clock(Instant{});
  const Instant now = clock.now();
  EXPECT_EQ(clock.steady(now + seconds(5)) - clock.steady(now), std::chrono::seconds(5));
  EXPECT_LE(clock.steady(now), std::chrono::steady_clock::now());
}

TEST(SteadyNow, DoesNotGoBack) {
  const Instant before = steady_now();
  EXPECT_GE(steady_now(), before);
}

}  // namespace
}  // namespace shoal
