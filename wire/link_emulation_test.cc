// What the line does to messages, in times that can be checked by hand.
#include "wire/link_emulation.h"

#include <gtest/gtest.h>

namespace shoal::wire {
namespace {

TEST(LinkEmulation, BytesLeaveOneAfterAnotherAndArriveLater) {
  LinkEmulation link({.up_bytes_per_s = 1e6, .rtt = milliseconds(100)});
  const Instant start = from_unix_ms(1000);
  EXPECT_EQ(link.up(start, 10'000), start + milliseconds(60));
  EXPECT_EQ(link.up(start, 10'000), start + milliseconds(70));  // waits for the first
  const Instant later = start + milliseconds(500);
  EXPECT_EQ(link.up(later, 10'000), later + milliseconds(60));  // an idle line saves nothing up
  EXPECT_EQ(link.down(later, 1'000'000), later);
}

// Each message is read when the one before has passed and the reader has woken up, 2 ms late.
TEST(LinkEmulation, ALateReaderLosesNoneOfTheRate) {
  LinkEmulation link({.down_bytes_per_s = 1e6});
  const Instant start = from_unix_ms(1000);
  Instant now = start;
  for (int i = 0; i < 100; ++i) now = link.down(now, 10'000) + milliseconds(2);
  EXPECT_EQ(now, start + milliseconds(1002));
}

TEST(LinkEmulation, ALineCarriesNoMoreThanItsRate) {
  LinkEmulation link({.down_bytes_per_s = 1e6});
  const Instant start = from_unix_ms(1000);
  EXPECT_EQ(link.down(start, 10'000), start + milliseconds(10));
  EXPECT_EQ(link.down(start, 10'000), start + milliseconds(20));
  const Instant idle = start + milliseconds(20) + kLateMax;  // long enough not to be a late reader
  EXPECT_EQ(link.down(idle, 10'000), idle + milliseconds(10));
  const Instant late = idle + milliseconds(10) + kLateMax - milliseconds(1);
  EXPECT_EQ(link.down(late, 10'000), late) << "it passed while nobody looked, and not earlier";
}

TEST(LinkEmulation, DirectionsDoNotShare) {
  LinkEmulation link({.up_bytes_per_s = 1e6, .down_bytes_per_s = 2e6});
  const Instant start = from_unix_ms(1000);
  EXPECT_EQ(link.up(start, 10'000), start + milliseconds(10));
  EXPECT_EQ(link.down(start, 10'000), start + milliseconds(5));
  EXPECT_EQ(link.down(start, 10'000), start + milliseconds(10));
}

TEST(LinkEmulation, JitterIsSeededAndNeverEarly) {
  const LinkOptions options{.rtt = milliseconds(2), .jitter = milliseconds(5), .seed = 9};
  LinkEmulation one(options), two(options);
  const Instant start = from_unix_ms(1000);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const Instant at = one.up(start, 1);
    EXPECT_EQ(at, two.up(start, 1));
    EXPECT_GE(at, start);
    differs |= at != start + milliseconds(1);
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace shoal::wire
