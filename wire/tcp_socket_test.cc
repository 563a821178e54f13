// Listening and dialing on loopback.
#include "wire/tcp_socket.h"

#include <fstream>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shoal::wire {
namespace {

bool is_ready(int fd, short events) {
  pollfd wait{fd, events, 0};
  return poll(&wait, 1, 10'000) == 1;
}

// A listener on loopback, and the two ends of a connection to it.
struct Connected {
  Connected() {
    pollfd wait{listener, POLLIN, 0};
    EXPECT_EQ(poll(&wait, 1, 10'000), 1);
    far = accept(listener, nullptr, nullptr);
    tune_connection(far);
  }
  ~Connected() {
    for (const int fd : {listener, near, far}) close(fd);
  }
  const int listener = listen_at("127.0.0.1:0").value();
  const std::string address = "127.0.0.1:" + std::to_string(port_of_listener(listener));
  const int near = begin_connect(address);
  int far = -1;
};

TEST(TcpSocket, ListensAndDials) {
  const Connected ends;
  ASSERT_TRUE(is_ready(ends.near, POLLOUT));
  EXPECT_EQ(send(ends.near, "x", 1, 0), 1);
  char byte = 0;
  ASSERT_TRUE(is_ready(ends.far, POLLIN));
  EXPECT_EQ(recv(ends.far, &byte, 1, 0), 1);
  EXPECT_EQ(number_of_peer(ends.near), ends.address);
  EXPECT_EQ(listen_at(ends.address).error().code, Code::kUnavailable);
}

std::string congestion_control_of(int fd) {
  char name[32] = {};
  socklen_t size = sizeof name;
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  return name;
}

constexpr char kDefault[] = "/proc/sys/net/ipv4/tcp_congestion_control";

bool has_congestion_control(const char* name) {
  std::ifstream available("/proc/sys/net/ipv4/tcp_available_congestion_control");
  for (std::string word; available >> word;) {
    if (word == name) return true;
  }
  return false;
}

// In a network namespace of its own where sockets go by reno. False: there is no right to make one.
template <typename Use>
bool where_reno_is_the_default(Use use) {
  bool made = false;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) return;
    const int any = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::string_view("lo").copy(static_cast<char*>(request.ifr_name), IFNAMSIZ - 1);
    request.ifr_flags = IFF_UP;
    made = ioctl(any, SIOCSIFFLAGS, &request) == 0;
    close(any);
    made = made && (std::ofstream(kDefault) << "reno").flush().good();
    if (made) use();
  }).join();
  return made;
}

TEST(TcpSocket, BothEndsChooseTheCongestionControlThatBearsLosses) {
  if (!has_congestion_control(kCongestionControl)) GTEST_SKIP() << "the kernel has no bbr";
  const bool made = where_reno_is_the_default([] {
    const int plain = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(congestion_control_of(plain), "reno");
    close(plain);
    const Connected ends;
    EXPECT_EQ(congestion_control_of(ends.near), kCongestionControl);
    EXPECT_EQ(congestion_control_of(ends.far), kCongestionControl);
  });
  if (!made) GTEST_SKIP() << "no right to make a network namespace";
}

TEST(TcpSocket, RefusesWhatIsNoAddress) {
  EXPECT_EQ(begin_connect("no port"), -1);
  EXPECT_FALSE(listen_at("no port").ok());
  EXPECT_FALSE(listen_at("192.0.2.1:0").ok());
}

TEST(TcpSocket, AHostHasAddressesByNumber) {
  EXPECT_EQ(numbers_of("127.0.0.1:80"), std::vector<std::string>{"127.0.0.1:80"});
  EXPECT_EQ(numbers_of("[::1]:80"), std::vector<std::string>{"[::1]:80"});
  EXPECT_TRUE(numbers_of("no colon").empty());
  EXPECT_FALSE(numbers_of("localhost:80").empty());
}

}  // namespace
}  // namespace shoal::wire
