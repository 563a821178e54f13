// Rights of another user, by trying what it can do; only root can become one.
#include "agent/host/program_user.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "nobody";

bool can_open(const std::string& path, int how = O_RDONLY) {
  const int file = ::open(path.c_str(), how, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

TEST(ProgramUser, NeedsRootAndAUserThatIsThere) {
  if (::geteuid() != 0) {
    EXPECT_EQ(find_program_user(kName).error().field, "--program-user");
    return;
  }
  EXPECT_EQ(find_program_user("no-such-user").error().code, Code::kValidation);
  EXPECT_EQ(find_program_user("root").error().code, Code::kValidation);
}

class ProgramUserTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    const auto user = find_program_user(kName);
    ASSERT_TRUE(user.ok()) << to_string(user.error());
    user_ = *user;
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0711), 0);
    fs::create_directories(path("data/code/lib"));
    for (const char* name : {"data", "data/code", "data/code/lib"}) {
      ASSERT_EQ(::chmod(path(name).c_str(), 0700), 0);
    }
    for (const char* name : {"data/machine.key", "data/code/train.py", "data/code/lib/part.py"}) {
      std::ofstream(path(name)) << "x";
      ASSERT_EQ(::chmod(path(name).c_str(), 0600), 0);
    }
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  // In a child that is the other user.
  bool as_user(const std::function<bool()>& attempt) const {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(become(user_) != 0 ? 2 : attempt() ? 1 : 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << status;
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
  }

  TestFolder folder_;
  ProgramUser user_;
};

TEST_F(ProgramUserTest, IsAnotherUserForGoodAndInNoOtherGroup) {
  EXPECT_TRUE(as_user([this] { return ::getuid() == user_.uid && ::getegid() == user_.gid; }));
  EXPECT_TRUE(as_user([] { return ::getgroups(0, nullptr) == 0; }));
  EXPECT_FALSE(as_user([] { return ::setuid(0) == 0 || ::setgid(0) == 0; }));
}

TEST_F(ProgramUserTest, ReadsWhatItMayAndNothingElseOfTheFolder) {
  EXPECT_FALSE(as_user([this] { return can_open(path("data/code/train.py")); }));
  ASSERT_TRUE(let_pass(path("data"), user_).ok());
  ASSERT_TRUE(let_read(path("data/code"), user_).ok());
  EXPECT_TRUE(as_user([this] { return can_open(path("data/code/train.py")); }));
  EXPECT_TRUE(as_user([this] { return can_open(path("data/code/lib/part.py")); }));
  EXPECT_FALSE(as_user([this] { return can_open(path("data/code/train.py"), O_WRONLY); }));
  EXPECT_FALSE(as_user([this] { return can_open(path("data/machine.key")); }));
  EXPECT_FALSE(as_user([this] { return can_open(path("data")); })) << "it cannot be listed";
}

TEST_F(ProgramUserTest, AFolderOnTheWayThatKeepsTheUserOutIsNamed) {
  ASSERT_TRUE(let_pass(path("data/code"), user_).ok());
  const Status closed = check_reach(path("data/code"), user_);
  ASSERT_FALSE(closed.ok());
  EXPECT_EQ(closed.error().field, "--program-user");
  EXPECT_TRUE(closed.error().remedy.starts_with("run chmod o+x " + path("data") + ","))
      << closed.error().remedy;
  ASSERT_TRUE(let_pass(path("data"), user_).ok());
  EXPECT_TRUE(check_reach(path("data/code"), user_).ok());
}

TEST_F(ProgramUserTest, WritesWhereItMay) {
  ASSERT_TRUE(let_pass(path("data"), user_).ok());
  fs::create_directories(path("data/written"));
  fs::create_directories(path("data/own/tmp"));
  EXPECT_FALSE(as_user([this] { return can_open(path("data/written/new"), O_WRONLY | O_CREAT); }));
  ASSERT_TRUE(let_write(path("data/written"), user_).ok());
  ASSERT_TRUE(give(path("data/own"), user_).ok());
  EXPECT_TRUE(as_user([this] { return can_open(path("data/written/new"), O_WRONLY | O_CREAT); }));
  EXPECT_TRUE(as_user([this] { return can_open(path("data/own/tmp/new"), O_WRONLY | O_CREAT); }));
}

TEST_F(ProgramUserTest, RightsAreNotGivenThroughALink) {
  ASSERT_TRUE(let_pass(path("data"), user_).ok());
  fs::create_symlink(path("data/machine.key"), path("data/code/link"));
  ASSERT_TRUE(let_read(path("data/code"), user_).ok());
  EXPECT_FALSE(as_user([this] { return can_open(path("data/code/link")); }));
}

}  // namespace
}  // namespace shoal::agent
