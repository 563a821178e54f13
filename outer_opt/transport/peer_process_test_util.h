// For tests: peers in processes of their own, and the pipes on which they and the test speak. They
// are forked before the process of the test starts threads, which do not survive a fork.
#pragma once

#include <array>
#include <csignal>
#include <functional>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shoal::outer_opt {

// Small values only: one write() of them is not cut.
template <typename T>
bool put(int to, const T* values, std::size_t count) {
  return write(to, values, sizeof(T) * count) == static_cast<ssize_t>(sizeof(T) * count);
}
template <typename T>
bool get(int from, T* values, std::size_t count) {
  return read(from, values, sizeof(T) * count) == static_cast<ssize_t>(sizeof(T) * count);
}

// Does what `live` says, which does not return, until it kills itself or this ends.
struct Process {
  explicit Process(const std::function<void(int in, int out)>& live) {
    std::array<int, 2> down{}, up{};
    EXPECT_EQ(pipe(down.data()) + pipe(up.data()), 0);
    pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(up[0]);
      live(down[0], up[1]);
      _exit(1);
    }
    close(down[0]);
    close(up[1]);
    to = down[1];
    from = up[0];
  }
  Process(const Process&) = delete;
  ~Process() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(to);
    close(from);
  }
  pid_t pid = 0;
  int to = -1, from = -1;
};

}  // namespace shoal::outer_opt
