#include "base/host_port.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(HostPort, IsTakenApartAndPutTogether) {
  struct Case {
    const char* text;
    HostPort read;
  };
  for (const auto& [text, read] :
       {Case{"10.0.0.7:7071", {"10.0.0.7", 7071}}, Case{"gpu-3.example:0", {"gpu-3.example", 0}},
        Case{"[::1]:65535", {"::1", 65535}}, Case{"[fe80::1%eth0]:1", {"fe80::1%eth0", 1}}}) {
    EXPECT_EQ(read_host_port(text), read) << text;
    EXPECT_EQ(read.text(), text);
  }
}

TEST(HostPort, IsNothingElse) {
  for (const char* text :
       {"",        ":",         "node",         "node:",   ":7071",         "node:x",
        "node:7x", "node:+7",   "node:-7",      "node: 7", "node:65536",    "::1:7071",
        "[::1]",   "[::1:7071", "[10.0.0.7]:1", "[]:1",    "unix:/tmp/s:1", "http://node:7071",
        "a b:1",   "node:7071/"}) {
    EXPECT_FALSE(read_host_port(text)) << text;
  }
}

TEST(HostPort, KnowsLoopback) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "1127.0.0.1"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

}  // namespace
}  // namespace shoal
