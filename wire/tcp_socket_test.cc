// Listening, dialling and the round trip of a connection on loopback.
#include "wire/tcp_socket.h"

#include <chrono>
#include <future>

#include <gtest/gtest.h>
#include <poll.h>
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

TEST(TcpSocket, RefusesWhatIsNoAddress) {
  EXPECT_EQ(begin_connect("no port"), -1);
  EXPECT_FALSE(TcpListener::start("no port", [](int fd) { close(fd); }).ok());
  EXPECT_FALSE(TcpListener::start("192.0.2.1:0", [](int fd) { close(fd); }).ok());
  EXPECT_EQ(round_trip_of(-1), Duration());
}

}  // namespace
}  // namespace shoal::wire
