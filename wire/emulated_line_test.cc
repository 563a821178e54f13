// Bytes over an emulated line take what the line gives, and a small message finds its place.
#include "wire/emulated_line.h"

#include <array>
#include <chrono>
#include <future>
#include <numeric>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shoal::wire {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A connection over a line of one end; the other end is real.
struct Wire {
  explicit Wire(EmulatedLine& line) {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
    near = line.pass(pair[0]);
    far = pair[1];
  }
  ~Wire() {
    if (near >= 0) close(near);
    close(far);
  }
  int near = -1, far = -1;
};

// Blocks for each piece; false when the connection ended or 20 s passed.
bool wait_for(int fd, short events) {
  pollfd wait{fd, events, 0};
  return poll(&wait, 1, 20'000) == 1;
}
void push(int fd, std::size_t bytes) {
  const std::string data(64 << 10, 'x');
  while (bytes > 0) {
    ASSERT_TRUE(wait_for(fd, POLLOUT));
    const ssize_t n = send(fd, data.data(), std::min(bytes, data.size()), MSG_NOSIGNAL);
    if (n > 0) bytes -= static_cast<std::size_t>(n);
  }
}
void pull(int fd, std::size_t bytes) {
  std::string data(64 << 10, 'x');
  while (bytes > 0) {
    ASSERT_TRUE(wait_for(fd, POLLIN));
    const ssize_t n = recv(fd, data.data(), std::min(bytes, data.size()), 0);
    ASSERT_NE(n, 0);
    if (n > 0) bytes -= static_cast<std::size_t>(n);
  }
}
double transfer(int from, int to, std::size_t bytes) {
  const auto start = Clock::now();
  const auto pushed = std::async(std::launch::async, push, from, bytes);
  pull(to, bytes);
  return seconds_since(start);
}

TEST(EmulatedLine, ATransferTakesWhatTheLineGives) {
  EmulatedLine line({.up_bytes_per_s = 10e6, .down_bytes_per_s = 5e6});
  const Wire wire(line);
  const double up_s = transfer(wire.near, wire.far, 3'000'000);
  EXPECT_GT(up_s, 0.29);
  EXPECT_LT(up_s, 0.9);  // on a busy machine
  const double down_s = transfer(wire.far, wire.near, 3'000'000);
  EXPECT_GT(down_s, 0.59);
  EXPECT_LT(down_s, 1.4);
}

TEST(EmulatedLine, ConnectionsShareTheLine) {
  EmulatedLine line({.up_bytes_per_s = 10e6});
  const Wire one(line), two(line);
  auto first = std::async(std::launch::async, transfer, one.near, one.far, 1'500'000);
  const double second_s = transfer(two.near, two.far, 1'500'000);
  const double first_s = first.get();
  EXPECT_GT(std::max(first_s, second_s), 0.29);
  EXPECT_GT(std::min(first_s, second_s), 0.2);  // neither had the line for itself
}

TEST(EmulatedLine, DelayDoesNotCostThroughput) {
  EmulatedLine line({.up_bytes_per_s = 20e6, .rtt = milliseconds(200)});
  const Wire wire(line);
  const double s = transfer(wire.near, wire.far, 10'000'000);
  EXPECT_GT(s, 0.59);  // half a round trip and half a second
  EXPECT_LT(s, 1.2);
}

TEST(EmulatedLine, ASmallMessagePassesBesideAFlood) {
  EmulatedLine line({.up_bytes_per_s = 1.25e6, .down_bytes_per_s = 1.25e6});  // 10 Mbit/s
  const Wire flood(line), small(line);
  auto flooding = std::async(std::launch::async, transfer, flood.near, flood.far, 2'500'000);
  double worst_s = 0;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    push(small.near, 100);
    pull(small.far, 100);
    push(small.far, 100);
    pull(small.near, 100);
    worst_s = std::max(worst_s, seconds_since(start));
  }
  EXPECT_EQ(flooding.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_LT(worst_s, 0.5);  // a chunk is 13 ms
  flooding.get();
}

TEST(EmulatedLine, TheEndPassesToo) {
  EmulatedLine line({.rtt = milliseconds(20)});
  Wire wire(line);
  push(wire.near, 1000);
  close(std::exchange(wire.near, -1));
  pull(wire.far, 1000);
  char byte = 0;
  ASSERT_TRUE(wait_for(wire.far, POLLIN));
  EXPECT_EQ(recv(wire.far, &byte, 1, 0), 0);
  const int dead = line.pass(-1);
  ASSERT_TRUE(wait_for(dead, POLLIN));
  EXPECT_EQ(recv(dead, &byte, 1, 0), 0);
  close(dead);
}

}  // namespace
}  // namespace shoal::wire
