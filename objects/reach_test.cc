#include "objects/reach.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>

namespace shoal::objects {
namespace {

bool is_public(const char* text) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET, text, &v4.sin_addr) == 1)
    return objects::is_public(reinterpret_cast<const sockaddr&>(v4));
  EXPECT_EQ(::inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
  return objects::is_public(reinterpret_cast<const sockaddr&>(v6));
}

TEST(Reach, PublicAddressesAreThoseOfTheRegistry) {
  for (const char* text : {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.0.1", "100.128.0.1",
                           "172.15.0.1", "172.32.0.1", "192.167.1.1", "223.255.255.255",
                           "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::"})
    EXPECT_TRUE(is_public(text)) << text;
  for (const char* text : {"0.0.0.0",
                           "10.1.2.3",
                           "100.64.0.1",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.0.2.1",
                           "192.168.0.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.1",
                           "224.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "fe80::1",
                           "fc00::1",
                           "fd12::1",
                           "ff02::1",
                           "2001:db8::1",
                           "2001::1",
                           "::ffff:127.0.0.1",
                           "64:ff9b::7f00:1",
                           "2002:a00:1::"})
    EXPECT_FALSE(is_public(text)) << text;
}

TEST(Reach, UrlsAreOfHttpsOrOfThisHost) {
  const auto check = [](const char* url, bool clear = false) {
    return check_url(url, {.clear_allowed = clear}, "--x");
  };
  for (const char* url :
       {"https://a.example/b?c", "http://127.0.0.1:1/", "http://localhost/", "http://[::1]:2/"})
    EXPECT_TRUE(check(url).ok()) << url;
  EXPECT_TRUE(check("http://a.example/", true).ok());
  for (const char* url :
       {"", "a.example", "ftp://a.example/", "file:///etc/passwd", "https://user:pass@a.example/",
        "http://a.example/", "http://127.evil.example/"}) {
    const Status refused = check(url);
    ASSERT_FALSE(refused.ok()) << url;
    EXPECT_EQ(refused.error().field, "--x");
  }
  EXPECT_EQ(shown_url("https://a/b?X-Amz-Signature=1"), "https://a/b");
}

}  // namespace
}  // namespace shoal::objects
