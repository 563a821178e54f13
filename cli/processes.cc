// fork and exec, with the errno of a failed exec reported back through a pipe.
#include "cli/processes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace shoal::cli {
namespace {

struct ProcessStat {
  char state = 'X';
  std::int64_t start = 0;
};

// Fields after the last ')' of /proc/PID/stat: the name in front may hold blanks.
ProcessStat stat_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto close = line.rfind(')');
  if (close == std::string::npos) return {};
  std::istringstream fields(line.substr(close + 1));
  ProcessStat found;
  fields >> found.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> found.start;
  return found;
}

[[noreturn]] void become(const Launch& what, int log, int failure_pipe) {
  setsid();
  if (what.ends_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : what.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  const int failure = errno;
  [[maybe_unused]] const auto written = write(failure_pipe, &failure, sizeof failure);
  _exit(127);
}

bool wait_until_gone(const std::vector<ProcessRef>& processes, double limit_s) {
  for (double waited = 0; waited < limit_s; waited += 0.05) {
    if (std::none_of(processes.begin(), processes.end(), is_alive)) return true;
    const timespec tick{0, 50'000'000};
    nanosleep(&tick, nullptr);
  }
  return std::none_of(processes.begin(), processes.end(), is_alive);
}

}  // namespace

Result<ProcessRef> launch(const Launch& what) {
  const int log = open(what.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    return Error{Code::kInternal, what.log + " cannot be written: " + std::strerror(errno), "", ""};
  }
  int failure_pipe[2];
  if (pipe2(failure_pipe, O_CLOEXEC) != 0) {
    close(log);
    return Error{Code::kResourceExhausted, std::string("no pipe: ") + std::strerror(errno), "", ""};
  }
  const pid_t pid = fork();
  if (pid == 0) become(what, log, failure_pipe[1]);
  close(log);
  close(failure_pipe[1]);
  int failure = pid < 0 ? errno : 0;
  if (pid > 0 && read(failure_pipe[0], &failure, sizeof failure) <= 0) failure = 0;
  close(failure_pipe[0]);
  if (failure != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    return Error{Code::kInternal, what.command[0] + " does not start: " + std::strerror(failure),
                 "", "install it beside shoal, or build it with `./dev build`"};
  }
  return ProcessRef{what.name, pid, stat_of(pid).start, what.log};
}

bool is_alive(const ProcessRef& process) {
  if (process.pid <= 0) return false;
  waitpid(process.pid, nullptr, WNOHANG);
  const ProcessStat now = stat_of(process.pid);
  return now.state != 'X' && now.state != 'Z' && now.start == process.start;
}

void stop(const std::vector<ProcessRef>& processes, double grace_s) {
  for (const ProcessRef& process : processes) {
    if (is_alive(process)) kill(process.pid, SIGTERM);
  }
  if (wait_until_gone(processes, grace_s)) return;
  for (const ProcessRef& process : processes) {
    if (is_alive(process)) kill(-process.pid, SIGKILL);
  }
  wait_until_gone(processes, 2);
}

std::string last_lines(const std::string& path, int count) {
  std::ifstream file(path);
  std::deque<std::string> kept;
  for (std::string line; std::getline(file, line);) {
    kept.push_back(line);
    if (kept.size() > static_cast<std::size_t>(count)) kept.pop_front();
  }
  std::string text;
  for (const std::string& line : kept) text += "\n    " + line;
  return text;
}

std::string own_folder() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).parent_path().string();
}

}  // namespace shoal::cli
