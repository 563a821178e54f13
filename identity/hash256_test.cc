#include "identity/hash256.h"

#include <gtest/gtest.h>

namespace shoal::identity {
namespace {

// FIPS 180-4, the example "abc".
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Hash256, IsSha256InLowerCaseHex) {
  EXPECT_EQ(to_hex(sha256("abc")), kOfAbc);
  EXPECT_EQ(parse_hash(kOfAbc), sha256("abc"));
}

TEST(Hash256, HasOneTextOnly) {
  std::string upper = kOfAbc, longer = kOfAbc;
  upper[0] = 'B';
  longer += '0';
  const std::string refused[] = {
      "", longer, upper, std::string(63, '0'), std::string(64, '\0'), std::string(64, ' ')};
  for (const std::string& text : refused) {
    EXPECT_FALSE(parse_hash(text)) << text;
  }
}

TEST(Hash256, ComparesAllOfIt) {
  const Hash256 hash = sha256("abc");
  EXPECT_TRUE(same_hash(hash, sha256("abc")));
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    Hash256 other = hash;
    other.bytes[i] ^= 1;
    EXPECT_FALSE(same_hash(hash, other)) << i;
  }
}

}  // namespace
}  // namespace shoal::identity
