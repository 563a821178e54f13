// What a service manager hears, by a socket that stands in for its own.
#include "threads/service_manager.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace shoal {
namespace {

class ServiceManagerTest : public ::testing::Test {
 protected:
  // A name in the abstract namespace, which the kernel chooses.
  void SetUp() override {
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)), 0);
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const std::size_t length = size - offsetof(sockaddr_un, sun_path) - 1;
    ::setenv("NOTIFY_SOCKET", ("@" + std::string(address.sun_path + 1, length)).c_str(), 1);
  }
  void TearDown() override {
    ::close(socket_);
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }
  // The next datagram; empty: there is none.
  std::string heard() {
    char text[256];
    const ssize_t size = ::recv(socket_, text, sizeof text, 0);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "";
  }
  int socket_ = -1;
};

TEST_F(ServiceManagerTest, HearsThatTheProcessServesAndStops) {
  ServiceManager manager = ServiceManager::from_environment();
  manager.ready("serving");
  EXPECT_EQ(heard(), "READY=1\nSTATUS=serving\n");
  manager.stopping();
  EXPECT_EQ(heard(), "STOPPING=1\n");
}

TEST_F(ServiceManagerTest, IsForThisProcessAndNotForThoseThatItStarts) {
  ::setenv("WATCHDOG_USEC", "1000000", 1);
  const ServiceManager manager = ServiceManager::from_environment();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    EXPECT_EQ(std::getenv(name), nullptr) << name;
  }
}

TEST_F(ServiceManagerTest, IsToldOfLifeWithoutBeingFlooded) {
  ::setenv("WATCHDOG_USEC", "60000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  ServiceManager manager = ServiceManager::from_environment();
  ASSERT_EQ(manager.alive_every(), seconds(30));
  manager.alive();
  EXPECT_EQ(heard(), "WATCHDOG=1\n");
  manager.alive();
  EXPECT_EQ(heard(), "");
}

TEST_F(ServiceManagerTest, NobodyWatchesWithoutALimitOfThisProcess) {
  for (const char* limit : {"", "0", "-5", "soon", "99999999999999999999"}) {
    SetUp();
    ::setenv("WATCHDOG_USEC", limit, 1);
    ServiceManager manager = ServiceManager::from_environment();
    EXPECT_FALSE(manager.alive_every()) << limit;
    manager.alive();
    EXPECT_EQ(heard(), "") << limit;
    ::close(socket_);
  }
  SetUp();
  ::setenv("WATCHDOG_USEC", "1000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(ServiceManager::from_environment().alive_every());
}

TEST_F(ServiceManagerTest, NoManagerIsNoFault) {
  for (const std::string& path :
       {std::string(), std::string("relative"), std::string(200, '/'), std::string("/nothing")}) {
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    ServiceManager manager = ServiceManager::from_environment();
    manager.ready("serving");
    manager.alive();
    EXPECT_FALSE(manager.alive_every());
  }
  EXPECT_EQ(heard(), "");
}

}  // namespace
}  // namespace shoal
