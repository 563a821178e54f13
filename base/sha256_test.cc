#include "base/sha256.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(Sha256, IsThatOfFips180) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(HmacSha256, IsThatOfRfc4231) {
  HmacSha256 first(std::string(20, '\x0b'));
  const std::string code = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
  EXPECT_EQ(first.of("Hi There"), code);
  EXPECT_NE(first.of("another text"), code);
  EXPECT_EQ(first.of("Hi There"), code) << "the key is still set up";
  HmacSha256 second("Jefe");
  EXPECT_EQ(second.of("what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(SameCode, ComparesEveryByte) {
  EXPECT_TRUE(same_code("ab", "ab"));
  EXPECT_FALSE(same_code("ab", "ac"));
  EXPECT_FALSE(same_code("ab", "abc"));
  EXPECT_FALSE(same_code("", "a"));
}

}  // namespace
}  // namespace shoal
