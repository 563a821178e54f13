#include "agent/host/trainer_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/children.h"
#include "base/check.h"

extern char** environ;

namespace shoal::agent {
namespace {

constexpr int kReadEveryMs = 200;

struct Pipe {
  int read = -1, write = -1;
};

bool open_pipe(Pipe& pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe = {ends[0], ends[1]};
  return true;
}

std::string name_of(const std::string& assignment) {
  return assignment.substr(0, assignment.find('=') + 1);
}

// What lets in whoever has it: no child needs it.
constexpr const char* kTokens[] = {"SHOAL_JOIN_TOKEN", "SHOAL_TOKEN"};

bool is_inherited(const std::string& assignment, const ProcessOptions& options) {
  const auto begins = [&](const std::string& with) { return assignment.starts_with(with); };
  if (std::ranges::any_of(kTokens, begins)) return false;
  return options.inherited.empty() || std::ranges::any_of(options.inherited, begins);
}

std::vector<std::string> environment_of(const ProcessOptions& options) {
  std::vector<std::string> merged = options.environment;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string assignment = *each;
    const bool replaced = std::ranges::any_of(options.environment, [&](const std::string& own) {
      return name_of(own) == name_of(assignment);
    });
    if (!replaced && is_inherited(assignment, options)) merged.push_back(assignment);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

[[noreturn]] void give_up(int failure, int error) {
  [[maybe_unused]] const auto written = write(failure, &error, sizeof error);
  _exit(127);
}

// In the child, between fork and exec: only calls that are safe in a copy of a threaded process.
[[noreturn]] void run_program(const ProcessOptions& options, char* const* arguments,
                              char* const* environment, int output, int failure) {
  setsid();
  if (!options.cgroup.empty()) {
    const int group = open(options.cgroup.c_str(), O_WRONLY | O_CLOEXEC);
    if (group < 0 || write(group, "0", 1) != 1) give_up(failure, errno);
  }
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) give_up(failure, errno);
  if (options.user) {
    if (const int error = become(*options.user); error != 0) give_up(failure, error);
  }
  if (options.rules != nullptr) {
    if (const int error = options.rules->enter(); error != 0) give_up(failure, error);
  }
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
  execvpe(arguments[0], arguments, environment);
  give_up(3, errno);
}

Error cannot_start(const ProcessOptions& options, int error) {
  const bool program = !options.arguments.empty();
  return {Code::kUnavailable, "cannot start " + options.program + ": " + std::strerror(error),
          program ? "--python" : "--trainer",
          program ? "give the path of the interpreter" : "give the path of shoal-trainer"};
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

bool is_readable(int descriptor) {
  pollfd wait{descriptor, POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

int descriptor_of_child(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0u)); }

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  Children::of_this_process().ended(child);
  return status;
}

// The process that runs the program, which appends to `output`; an errno as a negative number.
pid_t spawn(const ProcessOptions& options, int output) {
  Pipe failure;
  if (!open_pipe(failure)) return -errno;
  std::vector<std::string> environment = environment_of(options);
  const std::vector<char*> environment_pointers = pointers(environment);
  std::vector<std::string> command = {options.program};
  command.insert(command.end(), options.arguments.begin(), options.arguments.end());
  const std::vector<char*> command_pointers = pointers(command);
  const pid_t pid = Children::of_this_process().start([&] {
    const pid_t child = fork();
    if (child != 0) return child;
    run_program(options, command_pointers.data(), environment_pointers.data(), output,
                failure.write);
  });
  const int fork_error = errno;
  close(failure.write);
  const int error = pid < 0 ? fork_error : exec_error(failure.read);
  close(failure.read);
  if (error != 0 && pid > 0) wait_for(pid);
  return error != 0 ? -error : pid;
}

}  // namespace

Result<std::unique_ptr<TrainerProcess>> TrainerProcess::start(
    const ProcessOptions& options, std::function<void(ProcessExit)> ended) {
  const int output = OutputTail::make(options.output);
  const pid_t pid = output < 0 ? -errno : spawn(options, output);
  if (output >= 0) close(output);
  if (pid < 0) return cannot_start(options, -pid);
  const int descriptor = descriptor_of_child(pid);
  if (descriptor < 0) {
    const int error = errno;
    ::kill(-pid, SIGKILL);
    wait_for(pid);
    return cannot_start(options, error);
  }
  const ProcessId id = process_with(pid).value_or(ProcessId{pid, 0});
  return std::unique_ptr<TrainerProcess>(
      new TrainerProcess(id, true, descriptor, options, std::move(ended)));
}

Result<std::unique_ptr<TrainerProcess>> TrainerProcess::adopt(
    const ProcessId& process, const ProcessOptions& options,
    std::function<void(ProcessExit)> ended) {
  const int descriptor = open_process(process);
  if (descriptor < 0) {
    return Error{Code::kNotFound, "process " + std::to_string(process.pid) + " has ended", "", ""};
  }
  return std::unique_ptr<TrainerProcess>(
      new TrainerProcess(process, false, descriptor, options, std::move(ended)));
}

TrainerProcess::TrainerProcess(const ProcessId& id, bool child, int descriptor,
                               const ProcessOptions& options,
                               std::function<void(ProcessExit)> ended)
    : id_(id),
      child_(child),
      descriptor_(descriptor),
      stop_(eventfd(0, EFD_CLOEXEC)),
      tail_(options.output, LineSplitter(options.on_line), OutputTail::kFileMax,
            options.on_left_out) {
  SHOAL_CHECK(stop_ >= 0, "no descriptor is left");
  thread_ = std::thread([this, ended = std::move(ended)] { watch(ended); });
}

TrainerProcess::~TrainerProcess() {
  if (!left_) kill(true);
  thread_.join();
  close(descriptor_);
  close(stop_);
}

// As long as its descriptor says that it lives, its number and its group are its own.
void TrainerProcess::kill(bool hard) {
  const MutexLock guard(mutex_);
  if (over_ || (!child_ && is_readable(descriptor_))) return;
  ::kill(-id_.pid, hard ? SIGKILL : SIGTERM);
}

void TrainerProcess::leave() {
  left_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_, &one, sizeof one);
}

void TrainerProcess::watch(const std::function<void(ProcessExit)>& ended) {
  if (!follow()) return;
  ProcessExit exit = reap();
  tail_.finish();
  exit.last_line = tail_.last_line();
  ended(exit);
}

bool TrainerProcess::follow() {
  for (;;) {
    std::array<pollfd, 2> waits{pollfd{descriptor_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
    poll(waits.data(), waits.size(), kReadEveryMs);
    if (waits[1].revents != 0) return false;
    if (waits[0].revents != 0) return true;
    tail_.read();
  }
}

// A child is reaped last: until then its group cannot be anybody else's. What it has started ends
// with it, in its group or not.
ProcessExit TrainerProcess::reap() {
  const MutexLock guard(mutex_);
  over_ = true;
  if (!child_) return {.known = false};
  ::kill(-id_.pid, SIGKILL);  // what it may have started itself
  const int status = wait_for(id_.pid);
  Children::of_this_process().end_orphans();
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status)};
}

}  // namespace shoal::agent
