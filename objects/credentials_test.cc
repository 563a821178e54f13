#include "objects/credentials.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

namespace shoal::objects {
namespace {

TEST(Credentials, AreThoseOfTheDefaultSection) {
  const auto found = read_credentials(
      "# mine\n[other]\naws_access_key_id = no\n[default]\naws_access_key_id=id\n"
      "aws_secret_access_key = a=b \nregion = x\naws_session_token = t\n[more]\n"
      "aws_secret_access_key = no\n");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->key_id, "id");
  EXPECT_EQ(found->secret, "a=b");
  EXPECT_EQ(found->session_token, "t");
  EXPECT_FALSE(read_credentials("[default]\naws_access_key_id = id\n").ok());
}

TEST(Credentials, AFileThatOthersReadIsRefused) {
  const std::string path = ::testing::TempDir() + "/key." + std::to_string(::getpid());
  std::ofstream(path) << "aws_access_key_id = id\naws_secret_access_key = s\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  const auto open = [&] { return CredentialSource::open(path, "--store-credentials"); };
  EXPECT_EQ(open().error().code, Code::kPermissionDenied);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(open().value()->current()->secret, "s");
  std::ofstream(path) << "nothing\n";
  EXPECT_EQ(open().error().field, path);
  std::filesystem::remove(path);
}

TEST(Credentials, TheEnvironmentHasThemWithoutAFile) {
  ::unsetenv("AWS_ACCESS_KEY_ID");
  const auto none = CredentialSource::open("", "--store-credentials");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().field, "--store-credentials");
  ::setenv("AWS_ACCESS_KEY_ID", "id", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
  const auto found = CredentialSource::open("", "--store-credentials");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value()->current()->key_id, "id");
}

}  // namespace
}  // namespace shoal::objects
