// Local sockets by the address of their owner, and that nobody is found where nobody listens.
#include "wire/local_socket.h"

#include <chrono>
#include <future>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shoal::wire {
namespace {

constexpr Duration kKeepalive = milliseconds(500);

// Nobody else's: the port is no port.
std::string address(const std::string& host) { return host + ":p" + std::to_string(getpid()); }

auto listen_at(const std::string& at, LocalListener::Accept accept) {
  return LocalListener::start(at, kKeepalive, std::move(accept));
}
auto listen_at(const std::string& at) {
  return listen_at(at, [](int fd) { close(fd); });
}
bool is_there(const std::string& at) {
  const int fd = connect_locally(at, kKeepalive);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

TEST(LocalSocket, IsFoundByTheAddressOfItsOwner) {
  for (const char* host : {"127.0.0.1", "[::1]", "gpu-7.example.org"}) {
    std::promise<int> arrived;
    auto listener = listen_at(address(host), [&](int fd) { arrived.set_value(fd); });
    ASSERT_TRUE(listener.ok());
    const int mine = connect_locally(address(host), kKeepalive);
    ASSERT_GE(mine, 0);
    auto theirs = arrived.get_future();
    ASSERT_EQ(theirs.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    const int fd = theirs.get();
    EXPECT_EQ(send(fd, "x", 1, 0), 1);
    char byte = 0;
    EXPECT_EQ(recv(mine, &byte, 1, 0), 1);
    close(fd);
    close(mine);
  }
}

TEST(LocalSocket, NobodyIsThereAfterItsEndOrUnderAnotherHost) {
  auto listener = listen_at(address("127.0.0.1"));
  ASSERT_TRUE(listener.ok());
  EXPECT_TRUE(is_there(address("127.0.0.1")));
  EXPECT_FALSE(is_there(address("10.0.0.1")));
  listener->reset();
  EXPECT_FALSE(is_there(address("127.0.0.1")));
}

TEST(LocalSocket, ATakenNameAndAnEndlessOneAreRefused) {
  auto first = listen_at(address("127.0.0.1"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(listen_at(address("127.0.0.1")).error().code, Code::kUnavailable);
  EXPECT_FALSE(listen_at(address(std::string(200, 'h'))).ok());
  EXPECT_FALSE(is_there(address(std::string(200, 'h'))));
}

// A thread moves into a network namespace of its own, where the name is unknown.
TEST(LocalSocket, AnotherNetworkNamespaceDoesNotSeeIt) {
  auto listener = listen_at(address("127.0.0.1"));
  ASSERT_TRUE(listener.ok());
  bool moved = false, found = true;
  std::thread([&] {
    moved = unshare(CLONE_NEWNET) == 0;
    found = is_there(address("127.0.0.1"));
  }).join();
  if (!moved) GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_FALSE(found);
}

}  // namespace
}  // namespace shoal::wire
