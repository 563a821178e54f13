#include "base/base64.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(Base64, MatchesTheExamplesOfTheRfc) {  // section 10
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64url("foob"), "Zm9vYg");
}

TEST(Base64, GoesThereAndBack) {
  for (const std::string text : {"", "f", "fo", "foo", "c1:jobs:123", "\xff\xfe\xfd"}) {
    EXPECT_EQ(from_base64(base64(text)), text);
    EXPECT_EQ(from_base64url(base64url(text)), text);
  }
}

TEST(Base64, AlphabetsDifferInTwoLetters) {
  EXPECT_EQ(base64("\xff\xef\xbe"), "/+++");
  EXPECT_EQ(base64url("\xff\xef\xbe"), "_---");
  EXPECT_FALSE(from_base64("_---"));
  EXPECT_FALSE(from_base64url("/+++"));
}

TEST(Base64, RefusesOtherForms) {
  EXPECT_FALSE(from_base64url("a b"));
  EXPECT_FALSE(from_base64("Zg"));
  EXPECT_FALSE(from_base64("Zg=a"));
  EXPECT_FALSE(from_base64("Z==="));
}

}  // namespace
}  // namespace shoal
