#include "base/text.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(Text, TrimmedRemovesBlanksAtBothEndsOnly) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, JoinedSeparatesEveryPartEvenEmptyOnes) {
  EXPECT_EQ(joined(std::vector<std::string>{"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(joined(std::set<std::string_view>{"b", "a"}, "; "), "a; b");
  EXPECT_EQ(joined(std::vector<std::string>{"", "b", ""}, "-"), "-b-");
  EXPECT_EQ(joined(std::vector<std::string>()), "");
}

TEST(Text, HexHasTwoLowerCaseDigitsPerByte) {
  EXPECT_EQ(hex_of(std::string_view("\x00\x0f\xa0\xff", 4)), "000fa0ff");
  const std::byte byte{0x1e};
  EXPECT_EQ(hex_of(std::span(&byte, 1)), "1e");
  EXPECT_EQ(hex_of(std::string_view()), "");
}

TEST(Text, IsHexTakesLowerCaseOfTheRightLength) {
  EXPECT_TRUE(is_hex("09af", 4));
  EXPECT_FALSE(is_hex("09af", 5));
  EXPECT_FALSE(is_hex("09AF", 4));
  EXPECT_FALSE(is_hex("09ag", 4));
  EXPECT_TRUE(is_hex("", 0));
}

}  // namespace
}  // namespace shoal
