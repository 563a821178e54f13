#include "threads/clock.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(UnixClock, StartsAtTheHostsTime) {
  const auto host = std::chrono::system_clock::now().time_since_epoch();
  const UnixClock clock;
  const std::int64_t host_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(host).count();
  EXPECT_GE(clock.now().ns, host_ns);
  EXPECT_LT(clock.now().ns, host_ns + seconds(60).ns);
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
