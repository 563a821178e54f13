#include "tests/integration/process.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
  }
  ~Pipe() { close_end(0), close_end(1); }
  void close_end(int which) {
    if (ends[which] >= 0) close(ends[which]);
    ends[which] = -1;
  }
};

[[noreturn]] void become(const std::vector<std::string>& command, int in, int out, int err) {
  setpgid(0, 0);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// Reads both pipes until they end; false at the limit.
bool drain(Pipe& out, Pipe& err, Clock::time_point limit, Finished& result) {
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    if (Clock::now() > limit) return false;
    std::array<pollfd, 2> fds{{{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}}};
    poll(fds.data(), fds.size(), 100);
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char block[4096];
      const ssize_t got = read(fds[i].fd, block, sizeof block);
      if (got > 0) (i == 0 ? result.out : result.err).append(block, static_cast<std::size_t>(got));
      if (got == 0) (i == 0 ? out : err).close_end(0);
    }
  }
  return true;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

Finished run(const std::vector<std::string>& command, double limit_s, const std::string& input) {
  const auto limit =
      Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(limit_s * 1000));
  Pipe in, out, err;
  Finished result;
  const pid_t pid = fork();
  if (pid < 0) return result;
  if (pid == 0) become(command, in.ends[0], out.ends[1], err.ends[1]);
  in.close_end(0), out.close_end(1), err.close_end(1);
  if (!input.empty() && write(in.ends[1], input.data(), input.size()) < 0)
    result.err = "no stdin\n";
  in.close_end(1);
  int status = 0;
  bool gone = false;
  if (drain(out, err, limit, result)) {
    while (!(gone = waitpid(pid, &status, WNOHANG) == pid) && Clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  if (!gone) {
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    result.exit_code = 124;
    return result;
  }
  result.exit_code = code_of(status);
  return result;
}

std::string binary(const std::string& name) { return std::string(SHOAL_BIN_DIR) + "/" + name; }

bool has_binary(const std::string& name) { return access(binary(name).c_str(), X_OK) == 0; }

bool has_program(const std::string& name) {
  std::istringstream folders(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::vector<pid_t> children_of(pid_t parent, const std::string& name) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const auto close = line.rfind(')');
    if (close == std::string::npos) continue;
    std::istringstream fields(line.substr(close + 1));
    char state = 0;
    pid_t its_parent = 0;
    fields >> state >> its_parent;
    std::error_code failure;
    const fs::path executable = fs::read_symlink(entry.path() / "exe", failure);
    if (its_parent == parent && state != 'Z' && executable.filename() == name) found.push_back(pid);
  }
  return found;
}

bool eventually(double limit_s, const std::function<bool()>& holds) {
  const auto limit =
      Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(limit_s * 1000));
  while (!holds()) {
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace shoal::integration
