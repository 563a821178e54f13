#include "agent/host/confinement.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/folder_test_util.h"
#include "threads/landlock.h"
#include "wire/stream/local_name.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

bool can_open(const std::string& path, int how = O_RDONLY) {
  const int file = ::open(path.c_str(), how, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

class ConfinementTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status possible = can_confine(); !possible.ok())
      GTEST_SKIP() << possible.error().message;
    for (const char* folder : {"data", "data/own", "data/written", "data/code", "beside"}) {
      fs::create_directories(path(folder));
    }
    write("data/machine.key");
    write("data/code/train.py");
    write("beside/corpus.txt");
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void write(const std::string& name) const { std::ofstream(path(name)) << "x"; }

  // In a confined child; what `attempt` returned there.
  bool confined(const std::function<bool()>& attempt) const {
    Confinement confinement = system_confinement();
    confinement.readable.push_back(folder_.path());
    confinement.readable.push_back(path("data/machine.key"));
    confinement.exceptions.push_back(path("data/code"));
    confinement.writable.push_back(path("data/written"));
    confinement.own.push_back(path("data/own"));
    confinement.hidden.push_back(path("data"));
    const auto rules = ConfinementRules::make(confinement);
    EXPECT_TRUE(rules.ok()) << to_string(rules.error());
    const pid_t child = ::fork();
    if (child == 0) ::_exit(rules->enter() != 0 ? 2 : attempt() ? 1 : 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << status;
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
  }

  TestFolder folder_;
};

TEST_F(ConfinementTest, ReadsWhatItIsGivenAndNotTheKeyOfTheAgent) {
  EXPECT_TRUE(confined([&] { return can_open(path("beside/corpus.txt")); }));
  EXPECT_TRUE(confined([&] { return can_open(path("data/code/train.py")); }));
  EXPECT_TRUE(confined([] { return can_open("/usr/bin/env") && can_open("/etc/passwd"); }));
  EXPECT_FALSE(confined([&] { return can_open(path("data/machine.key")); }));
  EXPECT_FALSE(confined([&] { return can_open(path("beside/../data/machine.key")); }));
  EXPECT_FALSE(confined([] { return can_open("/etc/shadow"); }));
}

TEST_F(ConfinementTest, WritesIntoItsOwnFoldersOnly) {
  EXPECT_TRUE(confined([&] { return can_open(path("data/own/new"), O_WRONLY | O_CREAT); }));
  EXPECT_TRUE(confined([&] { return can_open(path("data/written/new"), O_WRONLY | O_CREAT); }));
  EXPECT_TRUE(confined([] { return can_open("/dev/null", O_WRONLY); }));
  EXPECT_FALSE(confined([&] { return can_open(path("data/code/new"), O_WRONLY | O_CREAT); }));
  EXPECT_FALSE(confined([&] { return can_open(path("beside/corpus.txt"), O_WRONLY); }));
  EXPECT_FALSE(confined([&] { return ::unlink(path("beside/corpus.txt").c_str()) == 0; }));
}

TEST_F(ConfinementTest, NoLinkLeadsTheAgentOutOfWhatItReads) {
  const std::string key = path("data/machine.key");
  const auto link = [&](const std::string& name) {
    return ::symlink(key.c_str(), path(name).c_str()) == 0;
  };
  EXPECT_FALSE(confined([&] { return link("data/written/model.safetensors"); }));
  EXPECT_FALSE(confined([&] {
    return link("data/own/link") &&
           ::rename(path("data/own/link").c_str(), path("data/written/link").c_str()) == 0;
  }));
  EXPECT_FALSE(
      confined([&] { return ::link(key.c_str(), path("data/written/hard").c_str()) == 0; }));
  EXPECT_TRUE(confined([&] { return link("data/own/other"); }));
  EXPECT_FALSE(confined([&] { return can_open(path("data/own/other")); }));
}

// The agent would wait for the other end of a FIFO.
TEST_F(ConfinementTest, MakesFilesAndNothingSpecialWhereTheAgentReads) {
  const auto fifo = [&](const std::string& name) {
    return ::mkfifo(path(name).c_str(), 0600) == 0;
  };
  const auto device = [&](const std::string& name, mode_t kind) {
    return ::mknod(path(name).c_str(), kind | 0600, 0x103) == 0;
  };
  const auto socket = [&](const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path(name).c_str());
    const int file = ::socket(AF_UNIX, SOCK_STREAM, 0);
    return ::bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  EXPECT_FALSE(confined([&] { return fifo("data/written/fifo"); }));
  EXPECT_FALSE(confined([&] { return socket("data/written/socket"); }));
  EXPECT_FALSE(confined([&] { return device("data/written/disk", S_IFBLK); }));
  EXPECT_FALSE(confined([&] { return device("data/written/tty", S_IFCHR); }));
  EXPECT_FALSE(confined([&] {
    return fifo("data/own/fifo") &&
           ::rename(path("data/own/fifo").c_str(), path("data/written/fifo").c_str()) == 0;
  }));
  EXPECT_TRUE(confined([&] { return fifo("data/own/other") && socket("data/own/socket"); }));
  EXPECT_FALSE(confined([&] { return device("data/own/tty", S_IFCHR); }));
}

TEST_F(ConfinementTest, LeavesOtherProcessesAlone) {
  const std::string environment = "/proc/" + std::to_string(::getpid()) + "/environ";
  ASSERT_TRUE(can_open(environment));
  EXPECT_FALSE(confined([&] {
    char byte = 0;
    const int file = ::open(environment.c_str(), O_RDONLY);
    return file >= 0 && ::read(file, &byte, 1) == 1;
  }));
}

TEST_F(ConfinementTest, NeitherSignalsNorLocalSocketsOfOthersAreInReach) {
  if (landlock_version() < 6) GTEST_SKIP() << "Linux 6.12 is needed";
  const pid_t other = ::getpid();
  EXPECT_FALSE(confined([&] { return ::kill(other, 0) == 0; }));
  const auto listener = wire::stream::listen_by_name("confined:1");
  ASSERT_TRUE(listener.ok());
  const int direct = wire::stream::connect_by_name("confined:1");
  EXPECT_GE(direct, 0);
  ::close(direct);
  EXPECT_FALSE(confined([] { return wire::stream::connect_by_name("confined:1") >= 0; }));
  ::close(*listener);
}

TEST_F(ConfinementTest, HasNoPrivilegesAndGetsNone) {
  EXPECT_TRUE(confined([] { return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1; }));
  EXPECT_FALSE(confined([] { return ::setuid(12345) == 0 || ::chroot("/usr") == 0; }));
}

TEST_F(ConfinementTest, NoRulesDoNothing) { EXPECT_EQ(ConfinementRules().enter(), 0); }

}  // namespace
}  // namespace shoal::agent
