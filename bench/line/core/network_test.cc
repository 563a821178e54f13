// Hosts around the middle: uplink, downlink, order of time, the bound of what is held.
#include "bench/line/core/network.h"

#include <gtest/gtest.h>

#include "bench/line/core/packet_test_util.h"

namespace shoal::bench {
namespace {

Instant ms(std::int64_t n) { return Instant{} + milliseconds(n); }

HostLines host(double up_bytes_per_s, double down_bytes_per_s, std::int64_t delay_ms = 0) {
  HostLines lines;
  lines.up.bytes_per_s = up_bytes_per_s;
  lines.down.bytes_per_s = down_bytes_per_s;
  lines.up.delay = lines.down.delay = milliseconds(delay_ms);
  lines.up.burst = lines.down.burst = {};
  lines.up.queue = lines.down.queue = seconds(10);
  return lines;
}

std::vector<Delivery> advance(Network& network, Instant now) {
  std::vector<Delivery> out;
  network.advance(now, out);
  return out;
}

TEST(Network, APacketTakesTheUplinkAndThenTheDownlink) {
  Network network({host(1e6, 0, 10), host(0, 5e5, 30)}, 1, mebibytes(1));
  network.send(ms(0), 0, 1, tcp_packet(1000));
  EXPECT_EQ(network.next(), ms(11));
  EXPECT_TRUE(advance(network, ms(42)).empty());
  EXPECT_EQ(network.next(), ms(43));  // 1 + 10 + 2 + 30
  const auto out = advance(network, ms(50));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].host, 1);
  EXPECT_EQ(out[0].due, ms(43));
  EXPECT_FALSE(network.next());
}

TEST(Network, WhoIsLateChangesNoTimes) {
  const auto run = [](const std::vector<std::int64_t>& calls) {
    Network network({host(1e6, 0, 10), host(1e6, 1e6, 30)}, 1, mebibytes(1));
    for (int i = 0; i < 20; ++i) network.send(ms(0), i % 2, 1, tcp_packet(1000));
    std::vector<Delivery> out;
    for (const std::int64_t at : calls) network.advance(ms(at), out);
    std::vector<Instant> due;
    for (const Delivery& one : out) due.push_back(one.due);
    return due;
  };
  const auto late = run({1000});
  EXPECT_EQ(late.size(), 20u);
  EXPECT_EQ(run({1, 12, 13, 45, 1000}), late);
}

TEST(Network, SendersShareTheDownlinkOfTheirReceiver) {
  Network network({host(0, 0), host(0, 0), host(0, 1e6)}, 1, mebibytes(1));
  for (int i = 0; i < 10; ++i) network.send(ms(0), i % 2, 2, tcp_packet(1000));
  const auto out = advance(network, ms(100));
  ASSERT_EQ(out.size(), 10u);
  EXPECT_EQ(out.back().due, ms(10));
}

TEST(Network, DirectionsDoNotShare) {
  Network network({host(1e6, 1e6), host(1e6, 1e6)}, 1, mebibytes(1));
  for (int i = 0; i < 10; ++i) network.send(ms(0), i % 2, 1 - i % 2, tcp_packet(1000));
  EXPECT_EQ(advance(network, ms(100)).back().due, ms(6));  // five on each, and the last of them
}

TEST(Network, LinesMayBeChanged) {
  Network network({host(0, 0), host(0, 0)}, 1, mebibytes(1));
  LineOptions slow = network.line(1, Direction::kDown).options();
  slow.delay = milliseconds(70);
  network.set(1, Direction::kDown, slow);
  network.send(ms(0), 0, 1, tcp_packet(1000));
  EXPECT_EQ(advance(network, ms(70)).size(), 1u);
  EXPECT_EQ(network.line(1, Direction::kDown).counts().passed, 1);
  EXPECT_EQ(network.line(0, Direction::kDown).counts().passed, 0);
}

TEST(Network, HoldsNoMoreThanItMay) {
  Network network({host(0, 0, 100), host(0, 0)}, 1, Bytes(10'000));
  for (int i = 0; i < 15; ++i) network.send(ms(0), 0, 1, tcp_packet(1000));
  EXPECT_EQ(network.dropped(), 5);
  EXPECT_EQ(advance(network, ms(100)).size(), 10u);
  network.send(ms(100), 0, 1, tcp_packet(1000));
  EXPECT_EQ(network.dropped(), 5);
}

}  // namespace
}  // namespace shoal::bench
