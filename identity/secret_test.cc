#include "identity/secret.h"

#include <gtest/gtest.h>

namespace shoal::identity {
namespace {

TEST(Secret, Has256BitsAndIsKeptAsItsHash) {
  const std::string secret = make_secret();
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_TRUE(is_secret(secret));
  EXPECT_NE(secret, make_secret());
  const std::string hash = hash_of_secret(secret);
  EXPECT_EQ(hash, to_hex(sha256(secret)));
  EXPECT_TRUE(is_secret_of(secret, hash));
}

TEST(Secret, NothingElseOpens) {
  const std::string secret = make_secret(), hash = hash_of_secret(secret);
  EXPECT_FALSE(is_secret_of(make_secret(), hash));
  EXPECT_FALSE(is_secret_of(hash, hash));  // who reads the store cannot use what it holds
  EXPECT_FALSE(is_secret_of(secret, secret));
  EXPECT_FALSE(is_secret_of("", hash_of_secret("")));
  EXPECT_FALSE(is_secret_of(secret, ""));
  EXPECT_FALSE(is_secret_of(secret + "0", hash_of_secret(secret + "0")));
}

TEST(Secret, ATokenHasItsWordsOnly) {
  const std::string secret(64, 'a'), token = "p1.x.y." + secret;
  const auto words = words_of_token(token, "p1", 3);
  ASSERT_TRUE(words);
  EXPECT_EQ(*words, (std::vector<std::string_view>{"x", "y", secret}));
  for (const std::string& text :
       {"p1.x." + secret, "p1.x.y.z." + secret, "p2.x.y." + secret, "p1.x.y." + secret + ".",
        "p1.x.y." + secret + "a", "p1x.y." + secret, std::string(), std::string("p1"),
        "p1.x.y" + std::string(kTokenTextMax, '.') + secret}) {
    EXPECT_FALSE(words_of_token(text, "p1", 3)) << text;
  }
}

}  // namespace
}  // namespace shoal::identity
