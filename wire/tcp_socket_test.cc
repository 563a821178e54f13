// Listening and dialing on loopback.
#include "wire/tcp_socket.h"

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
