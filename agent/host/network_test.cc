#include "agent/host/network.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shoal::agent {
namespace {

TEST(Network, AnAddressToDialHasAHostAndAPort) {
  EXPECT_EQ(*address_to_dial("node:7071", "--enrol"), (HostPort{"node", 7071}));
  EXPECT_EQ(address_to_dial("[::1]:7071", "--enrol")->host, "::1");
  for (const char* bad : {"", "node", ":7071", "node:", "node:0", "node:65536", "node:7x"}) {
    EXPECT_EQ(address_to_dial(bad, "--enrol").error().field, "--enrol") << bad;
  }
}

TEST(Network, TheLocalAddressOfARoute) {
  const auto local = local_address_towards("127.0.0.1:7071");
  ASSERT_TRUE(local.ok()) << to_string(local.error());
  EXPECT_EQ(*local, "127.0.0.1");
  EXPECT_FALSE(local_address_towards("nowhere.invalid:7071").ok());
}

TEST(Network, TheHostThatPeersDialCanBeResolved) {
  for (const char* good : {"127.0.0.1", "::1", "localhost"}) {
    EXPECT_TRUE(check_peer_host(good).ok()) << good;
  }
  for (const char* bad : {"", "127.0.0.1:7100", "no such host", "nowhere.invalid"}) {
    const Status status = check_peer_host(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().field, "--host");
  }
}

TEST(Network, PortRanges) {
  EXPECT_EQ(parse_port_range("7100-7199")->last, 7199);
  EXPECT_EQ(parse_port_range("7100")->first, 7100);
  EXPECT_EQ(parse_port_range("0")->last, 0);
  for (const char* bad : {"", "x", "7199-7100", "0-5", "1-", "-5", "7100-70000"}) {
    EXPECT_FALSE(parse_port_range(bad).ok()) << bad;
  }
}

TEST(Network, ListeningFollowsTheDialedHost) {
  EXPECT_EQ(listen_host_for("127.0.0.5"), "127.0.0.1");
  EXPECT_EQ(listen_host_for("10.0.0.1"), "0.0.0.0");
  EXPECT_EQ(listen_host_for("fd00::1"), "::");
}

TEST(Network, AFreePortIsOneThatNobodyHas) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  const int busy = ntohs(address.sin_port);

  const auto none = free_port({busy, busy}, "127.0.0.1", {}, 3);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kResourceExhausted);
  close(fd);
  EXPECT_EQ(*free_port({busy, busy}, "127.0.0.1", {}, 3), busy);
  EXPECT_FALSE(free_port({busy, busy}, "127.0.0.1", {busy}, 3).ok());
  EXPECT_EQ(*free_port({0, 0}, "127.0.0.1", {}, 3), 0);
}

}  // namespace
}  // namespace shoal::agent
