#include "coordinator/service/token_file.h"

#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(TokenFile, IsMadeOnceForItsOwnerOnly) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/join_token";
  const auto made = load_or_make_token(path);
  ASSERT_TRUE(made.ok()) << to_string(made.error());
  EXPECT_EQ(made->size(), 43u);  // 256 bits, six to a character
  EXPECT_EQ(
      made->find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
      std::string::npos);
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(*load_or_make_token(path), *made);
  TemporaryFolder other;
  EXPECT_NE(*load_or_make_token(other.path() + "/join_token"), *made);
}

TEST(TokenFile, OneThatOthersCanReadIsRefused) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/join_token";
  ASSERT_TRUE(load_or_make_token(path).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  const auto refused = load_or_make_token(path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
}

TEST(TokenFile, AnEmptyOneIsRefused) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/join_token";
  std::ofstream(path) << "\n";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_FALSE(load_or_make_token(path).ok());
}

TEST(TokenFile, TokensAreComparedAsAWhole) {
  EXPECT_TRUE(same_token("abc", "abc"));
  EXPECT_FALSE(same_token("abd", "abc"));
  EXPECT_FALSE(same_token("abcd", "abc"));
  EXPECT_FALSE(same_token("", "abc"));
}

}  // namespace
}  // namespace shoal::coordinator
