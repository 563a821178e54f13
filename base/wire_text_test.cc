#include "base/wire_text.h"

#include <string>

#include <gtest/gtest.h>

namespace shoal {
namespace {

using namespace std::string_literals;

TEST(PlainText, TakesWhatIsShownAsItIs) {
  for (const std::string text : {"", "agent-1", "NVIDIA H200 (141 GB)", "Zürich · 東京 · 🐟"}) {
    EXPECT_TRUE(is_plain_text(text, 64)) << text;
  }
  EXPECT_TRUE(is_plain_text(std::string(64, 'a'), 64));
  EXPECT_FALSE(is_plain_text(std::string(65, 'a'), 64));
}

TEST(PlainText, RefusesWhatTerminalsAndLogsObey) {
  for (const std::string& text : {"a\nb"s, "a\tb"s, "a\x1b[2Jb"s, "a\0b"s, "\x7f"s, "\xc2\x9b"s,
                                  "\xe2\x80\xa8"s, "\xe2\x80\xae"s, "\xe2\x81\xa6"s}) {
    EXPECT_FALSE(is_plain_text(text, 64)) << text.size();
  }
}

TEST(PlainText, RefusesWhatIsNotUtf8) {
  for (const std::string& text : {"\x80"s, "\xc0\xaf"s, "\xc3"s, "\xe0\x80\xaf"s, "\xed\xa0\x80"s,
                                  "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s, "\xe2\x82"s}) {
    EXPECT_FALSE(is_plain_text(text, 64)) << text.size();
  }
}

TEST(ShownText, WritesControlCharactersDown) {
  EXPECT_EQ(shown_text("plain · 東京", false), "plain · 東京");
  EXPECT_EQ(shown_text("a\x1b[2Jb\n", false), "a\\x1b[2Jb\\x0a");
  EXPECT_EQ(shown_text("a\x1b\n\tb", true), "a\\x1b\n\tb");
  EXPECT_EQ(shown_text("\xc2\x9b\xff\xe2\x82", false), "\\xc2\\x9b\\xff\\xe2\\x82");
}

TEST(HostText, KnowsNamesAndAddresses) {
  for (const char* text :
       {"10.0.0.7", "localhost", "gpu-3.example", "::1", "[fd00::7]", "fe80::1%eth0", "_dmz"}) {
    EXPECT_TRUE(is_host_text(text)) << text;
  }
  for (const char* text : {"", "unix:/tmp/s", "dns:///a", "a b", "a/b", "[10.0.0.7]", "[::1", ":",
                           "fe80::1%", "a,b", "ipv4:10.0.0.7"}) {
    EXPECT_FALSE(is_host_text(text)) << text;
  }
  EXPECT_FALSE(is_host_text(std::string(254, 'a')));
}

TEST(HostText, KnowsPorts) {
  for (const char* text : {"10.0.0.7:7100", "[::1]:1", "gpu-3.example:65535"}) {
    EXPECT_TRUE(is_host_port_text(text)) << text;
  }
  for (const char* text : {"10.0.0.7", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "::1:7100",
                           "a:+1", "a:1x", "unix:/tmp/s:1", ":7100"}) {
    EXPECT_FALSE(is_host_port_text(text)) << text;
  }
}

TEST(OriginText, IsASchemeAndAHost) {
  for (const char* text : {"https://shoal.example", "http://10.0.0.7:8080", "https://[fd00::7]",
                           "https://[fd00::7]:8443"}) {
    EXPECT_TRUE(is_origin_text(text)) << text;
  }
  for (const char* text : {"", "shoal.example", "ftp://a", "https://", "https://a/b", "https://A",
                           "https://fd00::7", "https://a:0", "https://a b", "https://u@a"}) {
    EXPECT_FALSE(is_origin_text(text)) << text;
  }
}

}  // namespace
}  // namespace shoal
