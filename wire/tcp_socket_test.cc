// Listening, dialling and the round trip of a connection on loopback.
#include "wire/tcp_socket.h"

#include <chrono>
#include <fstream>
#include <future>
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

TEST(TcpSocket, ListensAndDials) {
  std::promise<int> accepted;
  auto listener = TcpListener::start("127.0.0.1:0", [&](int fd) { accepted.set_value(fd); });
  ASSERT_TRUE(listener.ok());
  const std::string address = "127.0.0.1:" + std::to_string((*listener)->port());
  const int near = begin_connect(address);
  ASSERT_GE(near, 0);
  auto arrived = accepted.get_future();
  ASSERT_EQ(arrived.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  const int far = arrived.get();
  ASSERT_TRUE(is_ready(near, POLLOUT));
  EXPECT_EQ(send(near, "x", 1, 0), 1);
  char byte = 0;
  ASSERT_TRUE(is_ready(far, POLLIN));
  EXPECT_EQ(recv(far, &byte, 1, 0), 1);
  EXPECT_GT(round_trip_of(far), Duration());
  EXPECT_LT(round_trip_of(far), seconds(1));
  close(near);
  close(far);
  EXPECT_EQ(TcpListener::start(address, [](int fd) { close(fd); }).error().code,
            Code::kUnavailable);
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
    std::promise<int> accepted;
    auto listener = TcpListener::start("127.0.0.1:0", [&](int fd) { accepted.set_value(fd); });
    ASSERT_TRUE(listener.ok());
    const int near = begin_connect("127.0.0.1:" + std::to_string((*listener)->port()));
    const int far = accepted.get_future().get();
    EXPECT_EQ(congestion_control_of(near), kCongestionControl);
    EXPECT_EQ(congestion_control_of(far), kCongestionControl);
    for (const int fd : {plain, near, far}) close(fd);
  });
  if (!made) GTEST_SKIP() << "no right to make a network namespace";
}

TEST(TcpSocket, AWatchTellsWhetherAConnectionStands) {
  std::promise<int> accepted;
  auto listener = TcpListener::start("127.0.0.1:0", [&](int fd) { accepted.set_value(fd); });
  ASSERT_TRUE(listener.ok());
  const int near = begin_connect("127.0.0.1:" + std::to_string((*listener)->port()));
  const int far = accepted.get_future().get();
  const TcpWatch watch(near);
  EXPECT_TRUE(watch.stands());
  close(far);
  ASSERT_TRUE(is_ready(near, POLLRDHUP));
  EXPECT_FALSE(watch.stands());
  close(near);
  EXPECT_FALSE(TcpWatch(-1).stands());
}

TEST(TcpSocket, TellsNumbersFromNames) {
  EXPECT_TRUE(names_number("127.0.0.1:80"));
  EXPECT_TRUE(names_number("[::1]:80"));
  EXPECT_FALSE(names_number("localhost:80"));
  EXPECT_FALSE(names_number("127.0.0.1"));
}

TEST(TcpSocket, RefusesWhatIsNoAddress) {
  EXPECT_EQ(begin_connect("no port"), -1);
  EXPECT_FALSE(TcpListener::start("no port", [](int fd) { close(fd); }).ok());
  EXPECT_FALSE(TcpListener::start("192.0.2.1:0", [](int fd) { close(fd); }).ok());
  EXPECT_EQ(round_trip_of(-1), Duration());
}

TEST(TcpSocket, AHostHasAddressesByNumber) {
  EXPECT_EQ(numbers_of("127.0.0.1:80"), std::vector<std::string>{"127.0.0.1:80"});
  EXPECT_EQ(numbers_of("[::1]:80"), std::vector<std::string>{"[::1]:80"});
  EXPECT_TRUE(numbers_of("no colon").empty());
  EXPECT_FALSE(numbers_of("localhost:80").empty());
}

}  // namespace
}  // namespace shoal::wire
