// Bounds of programs, with real processes: a shell in the place of a program.
#include "agent/host/program_watch.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/children.h"
#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::chrono::seconds kLimit{30};
constexpr TrainerId kTrainer{0, 3};

class ProgramWatchTest : public testing::Test {
 protected:
  ~ProgramWatchTest() override {
    if (child_ <= 0) return;
    ::kill(-child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  // In a session of its own, as the agent starts programs.
  ProcessId start(const std::string& script) {
    child_ = ::fork();
    if (child_ == 0) {
      ::setsid();
      ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      ::_exit(127);
    }
    return process_with(child_).value();
  }
  void watch(const ProgramBounds& bounds, const ProcessId& process, bool only_disk = false) {
    watch_ = std::make_unique<ProgramWatch>(
        bounds, only_disk,
        [this](TrainerId trainer, const std::string& because) {
          EXPECT_EQ(trainer, kTrainer);
          over_.set_value(because);
        },
        milliseconds(20));
    watch_->add({kTrainer, process, {folder_.path()}});
  }
  std::string why_over() {
    auto over = over_.get_future();
    return over.wait_for(kLimit) == std::future_status::ready ? over.get() : "nothing";
  }
  bool child_ends() {
    const auto until = std::chrono::steady_clock::now() + kLimit;
    int status = 0;
    while (std::chrono::steady_clock::now() < until) {
      if (::waitpid(child_, &status, WNOHANG) == child_) return child_ = 0, WIFSIGNALED(status);
      std::this_thread::yield();
    }
    return false;
  }

  TestFolder folder_;
  pid_t child_ = 0;
  std::promise<std::string> over_;
  std::unique_ptr<ProgramWatch> watch_;
};

TEST_F(ProgramWatchTest, AProgramWithTooManyProcessesIsKilledWithThem) {
  ProgramBounds bounds;
  bounds.processes = 8;
  const ProcessId process = start("for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait");
  watch(bounds, process);
  EXPECT_THAT(why_over(), HasSubstr("processes and threads, and --program-processes of its agent "
                                    "allows 8"));
  EXPECT_TRUE(child_ends());
  const auto until = std::chrono::steady_clock::now() + kLimit;
  const auto any_left = [&] {
    return std::ranges::any_of(all_processes(), [&](const ProcessEntry& each) {
      return each.session == process.pid && !each.ended;
    });
  };
  while (any_left() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_FALSE(any_left());
}

TEST_F(ProgramWatchTest, AProgramWhoseProcessesLeaveItsSessionIsStillCounted) {
  ProgramBounds bounds;
  bounds.processes = 8;
  watch(bounds, start("for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 1000 & done; wait"));
  EXPECT_THAT(why_over(), HasSubstr("--program-processes"));
  EXPECT_TRUE(child_ends());
}

TEST_F(ProgramWatchTest, AProgramThatTakesTooMuchMemoryIsKilled) {
  ProgramBounds bounds;
  bounds.memory = mebibytes(64);
  watch(bounds, start("x=$(head -c 100000000 /dev/zero | tr '\\0' a); sleep 1000"));
  EXPECT_THAT(why_over(), HasSubstr("--program-memory-gib of its agent allows 67.1 MB"));
  EXPECT_TRUE(child_ends());
}

// Forked processes share the pages of their parent until they write them.
TEST_F(ProgramWatchTest, MemoryThatProcessesShareCountsOnce) {
  ProgramBounds bounds;
  bounds.memory = mebibytes(150);
  bounds.disk = Bytes(1 << 20);
  watch(bounds, start("x=$(head -c 30000000 /dev/zero | tr '\\0' a); for i in 1 2 3 4 5 6; do "
                      "(sleep 2 & wait) & done; wait; head -c 9000000 /dev/zero > " +
                      folder_.path() + "/end; sleep 1000"));
  EXPECT_THAT(why_over(), HasSubstr("of the disk")) << "and not of the memory";
}

TEST_F(ProgramWatchTest, AProgramWhoseFilesAreTooLargeIsKilled) {
  ProgramBounds bounds;
  bounds.disk = Bytes(1 << 20);
  watch(bounds,
        start("mkdir -p " + folder_.path() + "/a/b; head -c 9000000 /dev/zero > " + folder_.path() +
              "/a/b/big; sleep 1000"),
        true);
  EXPECT_THAT(why_over(), HasSubstr("--program-disk-gib of its agent allows 1.05 MB"));
  EXPECT_TRUE(child_ends());
}

// Their numbers would be taken for as long as this process lives.
TEST(Children, EndedOrphansAreWaitedFor) {
  const pid_t agent = ::fork();
  if (agent == 0) {
    Children& children = Children::of_this_process();
    children.adopt_orphans();
    const pid_t program = children.start([] { return ::fork(); });
    if (program == 0) {
      for (int i = 0; i < 3; ++i) {
        if (::fork() == 0) ::execlp("sleep", "sleep", "1000", nullptr);
      }
      ::_exit(0);
    }
    ::waitpid(program, nullptr, 0);
    children.ended(program);
    children.end_orphans();
    const auto all = all_processes();
    ::_exit(std::ranges::count(all, ::getpid(), &ProcessEntry::parent) == 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(agent, &status, 0), agent);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(ProgramWatchTest, WhatWasRemovedIsNotWatched) {
  ProgramBounds bounds;
  bounds.disk = Bytes(1);
  watch_ = std::make_unique<ProgramWatch>(
      bounds, true, [](TrainerId, const std::string&) { ADD_FAILURE(); }, milliseconds(20));
  const ProcessId process = start("exec sleep 1000");
  watch_->add({kTrainer, process, {}});
  watch_->remove({0, 2});
  watch_->remove(kTrainer);
  watch_->add({{1, 1}, process, {}});
  watch_->remove({1, 1});
  watch_.reset();
  EXPECT_EQ(process_with(process.pid), process);
}

}  // namespace
}  // namespace shoal::agent
