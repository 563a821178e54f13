#include "identity/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "identity/identity_test_util.h"

namespace shoal::identity {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

TEST(PrivateFile, IsWrittenForItsOwnerOnly) {
  const TemporaryFolder folder;
  const std::string path = folder.file("key");
  const mode_t before = ::umask(0);
  const Status written = write_private_file(path, "secret\n");
  ::umask(before);
  ASSERT_TRUE(written.ok()) << to_string(written.error());
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(*read_private_file(path), "secret\n");
  EXPECT_EQ(*read_token_file(path), "secret");
}

TEST(PrivateFile, WhatSomebodyLeftBesideItLendsItNoRights) {
  const TemporaryFolder folder;
  const std::string path = folder.file("key"), left = path + ".new";
  std::ofstream(left) << "left";
  ASSERT_EQ(::chmod(left.c_str(), 0666), 0);
  ASSERT_TRUE(write_private_file(path, "secret").ok());
  EXPECT_EQ(mode_of(path), 0600u);
  ASSERT_EQ(::symlink(folder.file("target").c_str(), left.c_str()), 0);
  ASSERT_TRUE(write_private_file(path, "other").ok());
  EXPECT_FALSE(std::filesystem::exists(folder.file("target")));
  EXPECT_EQ(*read_private_file(path), "other");
}

TEST(PrivateFile, OneThatOthersCanReadIsRefusedWithTheRemedy) {
  const TemporaryFolder folder;
  const std::string path = folder.file("key");
  ASSERT_TRUE(write_private_file(path, "secret").ok());
  for (const mode_t mode : {0640, 0604, 0620, 0601}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto refused = read_private_file(path);
    ASSERT_FALSE(refused.ok()) << mode;
    EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
    EXPECT_EQ(refused.error().field, path);
    EXPECT_NE(refused.error().remedy.find("chmod 600"), std::string::npos);
    EXPECT_FALSE(read_token_file(path).ok());
    EXPECT_TRUE(read_public_file(path).ok());
  }
}

TEST(PrivateFile, RefusesWhatIsNoSuchFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_private_file(folder.file("none")).error().code, Code::kNotFound);
  EXPECT_EQ(read_private_file(folder.file("")).error().code, Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_private_file(folder.file("pipe")).error().code, Code::kInvalidArgument);
  const std::string path = folder.file("long");
  ASSERT_TRUE(write_private_file(path, std::string(kPrivateFileMax, 'x')).ok());
  EXPECT_EQ(read_private_file(path)->size(), kPrivateFileMax);
  ASSERT_TRUE(write_private_file(path, std::string(kPrivateFileMax + 1, 'x')).ok());
  EXPECT_EQ(read_private_file(path).error().code, Code::kInvalidArgument);
  ASSERT_TRUE(write_private_file(path, " \n").ok());
  EXPECT_EQ(read_token_file(path).error().code, Code::kInvalidArgument);
}

TEST(PrivateFile, AWriteThatFailsLeavesTheOldContent) {
  const TemporaryFolder folder;
  EXPECT_EQ(write_private_file(folder.file("no/such"), "x").error().code, Code::kNotFound);
  ASSERT_TRUE(std::filesystem::create_directory(folder.file("key")));
  EXPECT_FALSE(write_private_file(folder.file("key"), "x").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder.file("key")));
}

}  // namespace
}  // namespace shoal::identity
