#include "agent/host/trainer_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/line_splitter.h"

extern char** environ;

namespace shoal::agent {
namespace {

struct Pipe {
  int read = -1, write = -1;
};

bool open_pipe(Pipe& pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe = {ends[0], ends[1]};
  return true;
}

void close_all(std::initializer_list<int> descriptors) {
  for (const int fd : descriptors) {
    if (fd >= 0) close(fd);
  }
}

std::string name_of(const std::string& assignment) {
  return assignment.substr(0, assignment.find('=') + 1);
}

std::vector<std::string> merged_environment(const std::vector<std::string>& ours) {
  std::vector<std::string> merged = ours;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string inherited = *each;
    bool replaced = false;
    for (const std::string& own : ours) replaced |= name_of(own) == name_of(inherited);
    if (!replaced) merged.push_back(inherited);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// In the child, between fork and exec: only calls that are safe in a copy of a threaded process.
[[noreturn]] void become(const char* program, char* const* environment, int output, int failure,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it died before the line above
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(output, 1);
  dup2(output, 2);
  dup2(failure, 3);  // closed by exec
  fcntl(3, F_SETFD, FD_CLOEXEC);
  syscall(SYS_close_range, 4u, ~0u, 0u);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  char* const arguments[] = {const_cast<char*>(program), nullptr};
  execve(program, arguments, environment);
  const int error = errno;
  [[maybe_unused]] const auto written = write(3, &error, sizeof error);
  _exit(127);
}

// Reads until the end of the pipe, or until `stop` is signalled and nothing is left.
void pump(int output, int stop, LineSplitter& lines) {
  std::array<char, 16384> buffer;
  fcntl(output, F_SETFL, O_NONBLOCK);
  for (;;) {
    const auto size = read(output, buffer.data(), buffer.size());
    if (size > 0) {
      lines.add({buffer.data(), static_cast<std::size_t>(size)});
      continue;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) return;
    std::array<pollfd, 2> waits{pollfd{output, POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    poll(waits.data(), waits.size(), -1);
    if ((waits[1].revents & POLLIN) != 0 && (waits[0].revents & POLLIN) == 0) return;
  }
}

Error cannot_start(const std::string& program, int error) {
  return {Code::kUnavailable, "cannot start " + program + ": " + std::strerror(error), "--trainer",
          "give the path of shoal-trainer"};
}

// The child's errno when exec failed; 0 when it runs.
int exec_error(int failure) {
  int error = 0;
  ssize_t size = 0;
  do {
    size = read(failure, &error, sizeof error);
  } while (size < 0 && errno == EINTR);
  return size == sizeof error ? error : 0;
}

}  // namespace

Result<std::unique_ptr<TrainerProcess>> TrainerProcess::start(
    const ProcessOptions& options, std::function<void(ProcessExit)> ended) {
  Pipe output, failure;
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0 || !open_pipe(output) || !open_pipe(failure)) {
    const int error = errno;
    close_all({stop, output.read, output.write, failure.read, failure.write});
    return cannot_start(options.program, error);
  }
  std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> environment_pointers = pointers(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0)
    become(options.program.c_str(), environment_pointers.data(), output.write, failure.write,
           parent);
  const int fork_error = errno;
  close_all({output.write, failure.write});
  const int error = pid < 0 ? fork_error : exec_error(failure.read);
  close(failure.read);
  if (error != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    close_all({output.read, stop});
    return cannot_start(options.program, error);
  }
  return std::unique_ptr<TrainerProcess>(
      new TrainerProcess(pid, output.read, stop, options, std::move(ended)));
}

TrainerProcess::TrainerProcess(pid_t pid, int output, int stop, const ProcessOptions& options,
                               std::function<void(ProcessExit)> ended)
    : pid_(pid), stop_pump_(stop) {
  pump_ = std::thread([this, output, stop, options] {
    LineSplitter lines(options.on_line);
    pump(output, stop, lines);
    lines.finish();
    last_line_ = lines.last_line();
    close(output);
  });
  waiter_ = std::thread([this, ended = std::move(ended)] { wait(ended); });
}

TrainerProcess::~TrainerProcess() {
  kill(true);
  waiter_.join();
  close(stop_pump_);
}

void TrainerProcess::kill(bool hard) {
  const std::lock_guard guard(mutex_);
  if (!reaped_) ::kill(-pid_, hard ? SIGKILL : SIGTERM);
}

void TrainerProcess::wait(std::function<void(ProcessExit)> ended) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  int status = 0;
  {
    const std::lock_guard guard(mutex_);
    ::kill(-pid_, SIGKILL);  // what it may have started itself
    waitpid(pid_, &status, 0);
    reaped_ = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_pump_, &one, sizeof one);
  pump_.join();
  ProcessExit exit;
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
  } else {
    exit.code = WEXITSTATUS(status);
  }
  exit.last_line = last_line_;
  ended(exit);
}

}  // namespace shoal::agent
