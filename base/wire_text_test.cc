#include "base/wire_text.h"

#include <string>

#include <gtest/gtest.h>

#include "base/prng.h"

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

TEST(ValidText, KeepsWhatIsUtf8) {
  for (const std::string& text : {""s, "plain"s, "a\0b\x1b"s, "Zürich · 東京 · 🐟"s}) {
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(valid_text(text), text);
    EXPECT_EQ(valid_text(text, text.size()), text);
  }
}

TEST(ValidText, ReplacesRunsOfOtherBytes) {
  EXPECT_EQ(valid_text("caf\xe9: no such file"), "caf\xEF\xBF\xBD: no such file");
  EXPECT_EQ(valid_text("\xff\xfe\xfd"), "\xEF\xBF\xBD");
  EXPECT_EQ(valid_text("a\xe2\x96"), "a\xEF\xBF\xBD") << "a character that is cut";
  EXPECT_EQ(valid_text("\xed\xa0\x80|\xc0\xaf|\xf4\x90\x80\x80"),
            "\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD");
}

TEST(ValidText, CutsBetweenCharacters) {
  EXPECT_EQ(valid_text("███", 8), "██");
  EXPECT_EQ(valid_text("a🐟", 4), "a");
  EXPECT_EQ(valid_text("ab\xff", 4), "ab") << "the replacement has three bytes";
  EXPECT_EQ(valid_text("ab\xff", 5), "ab\xEF\xBF\xBD");
  EXPECT_EQ(valid_text("ab", 0), "");
}

TEST(ValidText, AnyBytesBecomeUtf8WithinTheBound) {
  Prng prng(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(prng.below(40), '\0');
    for (char& c : bytes) c = static_cast<char>(prng.below(256));
    const std::size_t most = prng.below(50);
    const std::string valid = valid_text(bytes, most);
    EXPECT_TRUE(is_utf8(valid));
    EXPECT_LE(valid.size(), most);
    EXPECT_EQ(valid_text(valid), valid);
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
