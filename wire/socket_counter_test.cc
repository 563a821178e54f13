// The kernel's counters against a known number of bytes on loopback sockets.
#include "wire/socket_counter.h"

#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shoal::wire {
namespace {

struct Fd {
  explicit Fd(int fd) : fd(fd) { EXPECT_GE(fd, 0); }
  ~Fd() { close_now(); }
  void close_now() {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  int fd;
};

struct Connection : testing::Test {
  Connection()
      : listener(socket(AF_INET, SOCK_STREAM, 0)), dialler(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener.fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener.fd, 1), 0);
    socklen_t size = sizeof address;
    getsockname(listener.fd, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    EXPECT_EQ(connect(dialler.fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    accepted = accept(listener.fd, nullptr, nullptr);
  }
  ~Connection() override { close(accepted); }
  void move(std::size_t bytes) const {
    std::string data(bytes, 'x');
    ASSERT_EQ(send(dialler.fd, data.data(), bytes, 0), static_cast<ssize_t>(bytes));
    ASSERT_EQ(recv(accepted, data.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }

  Fd listener, dialler;
  int accepted = -1;
  std::uint16_t port = 0;
};

TEST_F(Connection, CountsTheDialledEnd) {
  move(1000);  // before it was dialled
  SocketCounter counter(0);
  counter.dial({port});
  move(12345);
  const SocketTotals total = counter.take();
  EXPECT_EQ(total.sent, Bytes(12345));
  EXPECT_EQ(total.received, Bytes(0));
  move(99);
  EXPECT_EQ(counter.take().sent, Bytes(99));  // since the last take
}

TEST_F(Connection, CountsTheAcceptedEnd) {
  SocketCounter counter(port);
  move(777);
  const SocketTotals total = counter.take();
  EXPECT_EQ(total.received, Bytes(777));
  EXPECT_EQ(total.sent, Bytes(0));
}

TEST_F(Connection, OtherSocketsDoNotCount) {
  SocketCounter counter(1);
  counter.dial({2});
  move(777);
  EXPECT_EQ(counter.take().received, Bytes(0));
}

TEST_F(Connection, KeepsWhatAClosedSocketHadAtItsLastSample) {
  SocketCounter counter(0);
  counter.dial({port});
  move(500);
  counter.sample();
  dialler.close_now();
  EXPECT_EQ(counter.take().sent, Bytes(500));
  EXPECT_EQ(counter.take().sent, Bytes(0));
}

TEST(PortOf, Addresses) {
  EXPECT_EQ(port_of("127.0.0.1:7100"), 7100);
  EXPECT_EQ(port_of("[::1]:80"), 80);
  EXPECT_EQ(port_of("host"), 0);
  EXPECT_EQ(port_of("host:70000"), 0);
  EXPECT_EQ(port_of("host:"), 0);
}

}  // namespace
}  // namespace shoal::wire
