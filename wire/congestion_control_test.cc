// What a connection takes on which line, by the rule and on sockets of this host.
#include "wire/congestion_control.h"

#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/tcp_socket.h"

namespace shoal::wire {
namespace {

constexpr Duration kShort = microseconds(300), kFar = milliseconds(100);

TEST(CongestionRule, ALongLineTakesWhatBearsLosses) {
  EXPECT_EQ(CongestionRule().choose({kShort, 0, 0}), kForShortLines);
  EXPECT_EQ(CongestionRule().choose({kFar, 0, 0}), kForLongLines);
}

TEST(CongestionRule, AQueueAtTheBeginningIsNoLongLine) {
  CongestionRule rule;
  EXPECT_EQ(rule.choose({milliseconds(40), 10, 0}), kForLongLines);
  EXPECT_EQ(rule.choose({kShort, 5000, 0}), kForShortLines);
}

TEST(CongestionRule, LossesThatGoOnAreTheLines) {
  CongestionRule rule;
  EXPECT_EQ(rule.choose({kShort, 5000, 500}), kForShortLines);  // its beginning
  EXPECT_EQ(rule.choose({kShort, 5000, 50}), kForShortLines);
  EXPECT_EQ(rule.choose({kShort, 5000, 50}), kForLongLines);
  EXPECT_EQ(rule.choose({kShort, 5000, 0}), kForLongLines);  // they were: it stays
}

TEST(CongestionRule, NowAndThenAnyQueueDropsSomething) {
  CongestionRule rule;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(rule.choose({kShort, 5000, i % 2 == 0 ? 40 : 4}), kForShortLines);
  }
}

TEST(CongestionRule, FewSegmentsSayNothingAboutLosses) {
  CongestionRule rule;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rule.choose({kShort, 100, 50}), kForShortLines);
}

std::string control_of(int fd) {
  char name[32] = {};
  socklen_t size = sizeof name;
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  return name;
}

TEST(CongestionControl, ConnectionsWithinThisHostAreShort) {
  const int listener = listen_at("127.0.0.1:0").value();
  const int near = begin_connect("127.0.0.1:" + std::to_string(port_of_listener(listener)));
  pollfd wait{listener, POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, 10'000), 1);
  const int far = accept(listener, nullptr, nullptr);
  for (const int fd : {near, far}) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kForLongLines.data(), kForLongLines.size());
    CongestionControl(fd).look();
    EXPECT_TRUE(control_of(fd) == kForShortLines || control_of(fd) == "reno") << control_of(fd);
  }
  for (const int fd : {listener, near, far}) close(fd);
}

TEST(CongestionControl, OtherSocketsAreLeftAlone) {
  int pair[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  CongestionControl(pair[0]).look();
  for (const int fd : pair) close(fd);
}

}  // namespace
}  // namespace shoal::wire
