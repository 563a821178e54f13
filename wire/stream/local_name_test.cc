// Unix sockets that are found by the address that a node advertises.
#include "wire/stream/local_name.h"

#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "wire/socket_owner.h"

namespace shoal::wire::stream {
namespace {

std::string address() { return "test-" + std::to_string(getpid()) + ":7100"; }

TEST(LocalName, FindsTheListener) {
  EXPECT_EQ(connect_by_name(address()), -1);
  const auto listener = listen_by_name(address());
  ASSERT_TRUE(listener.ok());
  const int fd = connect_by_name(address());
  ASSERT_GE(fd, 0);
  EXPECT_EQ(process_behind(fd), getpid());
  EXPECT_EQ(connect_by_name("other-" + address()), -1);
  close(fd);
  close(*listener);
  EXPECT_EQ(connect_by_name(address()), -1);
}

TEST(LocalName, AnAddressHasOneListener) {
  const auto first = listen_by_name(address());
  ASSERT_TRUE(first.ok());
  const auto second = listen_by_name(address());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().field, "bind");
  EXPECT_FALSE(listen_by_name(std::string(200, 'x')).ok());  // longer than a name can be
  close(*first);
}

}  // namespace
}  // namespace shoal::wire::stream
