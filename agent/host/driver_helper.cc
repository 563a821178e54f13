#include "agent/host/driver_helper.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/children.h"
#include "threads/clock.h"

extern char** environ;

namespace shoal::agent {
namespace {

constexpr int kCannotRun = 127;
constexpr int kStopEveryMs = 200;
constexpr const char* kStops = "this agent stops";
constexpr Duration kReapLimit = seconds(1);

// Without what lets in whoever has it.
std::vector<char*> environment_of_helper() {
  std::vector<char*> kept;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    if (entry.starts_with("SHOAL_JOIN_TOKEN=") || entry.starts_with("SHOAL_TOKEN=")) continue;
    kept.push_back(*each);
  }
  kept.push_back(nullptr);
  return kept;
}

// In the child, between fork and exec: only calls that are safe in a copy of a threaded process.
[[noreturn]] void run_helper(const char* program, char* const* arguments, char* const* environment,
                             int socket, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);
  setsid();  // signals of a terminal are for the agent
  const int kept = fcntl(socket, F_DUPFD, kQuerySocket + 1);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, 0);
  dup2(nothing, 1);
  dup2(nothing, 2);
  dup2(kept, kQuerySocket);
  syscall(SYS_close_range, static_cast<unsigned>(kQuerySocket + 1), ~0u, 0u);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(program, arguments, environment);
  _exit(kCannotRun);
}

// Milliseconds, rounded up, so that a wait does not end early.
int left_ms(Instant until) {
  const std::int64_t ns = (until - steady_now()).ns;
  return static_cast<int>(std::clamp<std::int64_t>((ns + 999'999) / 1'000'000, 0, 60'000));
}

// The status of a child that has ended or is about to; none: it hangs.
std::optional<int> wait_briefly(pid_t child) {
  const Instant until = steady_now() + kReapLimit;
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0u));
  if (descriptor >= 0) {
    pollfd ended{descriptor, POLLIN, 0};
    while (poll(&ended, 1, left_ms(until)) < 0 && errno == EINTR) {
    }
    close(descriptor);
  }
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  Children::of_this_process().ended(child);
  return status;
}

std::string text_of(Duration limit) {
  const std::int64_t ms = limit.ms();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

Error silent(const std::string& what) { return {Code::kUnavailable, what, "", ""}; }

}  // namespace

DriverHelper::~DriverHelper() {
  end();
  if (!killed_.empty() && wait_briefly(killed_.back())) killed_.pop_back();
  reap();
}

Status DriverHelper::start() {
  reap();
  if (stop_.stop_requested()) return silent(kStops);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return silent(std::string("no process can be asked: ") + std::strerror(errno));
  std::string name = "shoal-agent", flag = kQueryDevicesFlag, library = options_.library;
  char* const arguments[] = {name.data(), flag.data(), library.data(), nullptr};
  const std::vector<char*> environment = environment_of_helper();
  const pid_t parent = getpid();
  pid_ = Children::of_this_process().start([&] {
    const pid_t child = fork();
    if (child != 0) return child;
    run_helper(options_.program.c_str(), arguments, environment.data(), ends[1], parent);
  });
  const int failed = errno;
  close(ends[1]);
  socket_ = ends[0];
  if (pid_ > 0) return {};
  end();
  return silent(std::string("no process can be started to ask it: ") + std::strerror(failed));
}

void DriverHelper::end() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  killed_.push_back(pid_);
  pid_ = -1;
}

// One that hangs in the driver ends when the driver lets it.
void DriverHelper::reap() {
  std::erase_if(killed_, [](pid_t child) {
    if (waitpid(child, nullptr, WNOHANG) == 0) return false;
    Children::of_this_process().ended(child);
    return true;
  });
}

Error DriverHelper::died() {
  const auto status = wait_briefly(pid_);
  if (status) pid_ = -1;
  end();
  if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == kCannotRun)
    return silent("the process that asks the driver cannot be started");
  std::string how;
  if (status && WIFSIGNALED(*status)) how = std::string(" (") + strsignal(WTERMSIG(*status)) + ")";
  return silent("the driver ended the process that asked it" + how);
}

Result<std::string> DriverHelper::ask(const std::string& request, Duration limit) {
  if (!is_open()) return silent("the process that asks the driver has ended");
  const Instant until = steady_now() + limit;
  const std::string line = request + "\n";
  if (send(socket_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return died();
  std::string answer;
  for (;;) {
    pollfd readable{socket_, POLLIN, 0};
    const int ready = poll(&readable, 1, std::min(left_ms(until), kStopEveryMs));
    if (ready < 0 && errno == EINTR) continue;
    if (stop_.stop_requested()) {
      end();
      return silent(kStops);
    }
    if (ready == 0 && steady_now() < until) continue;
    if (ready == 0) {
      end();
      return silent("no answer within " + text_of(limit));
    }
    char part[4096];
    const ssize_t size = recv(socket_, part, sizeof part, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return died();
    answer.append(part, static_cast<std::size_t>(size));
    if (answer.ends_with('\n')) return answer;
    if (answer.size() <= kDriverAnswerMax) continue;
    end();
    return silent("its answer is too long");
  }
}

namespace {

// What cannot be read comes from a process that is not to be asked again.
template <typename T>
Result<T> parsed(DriverHelper& helper, const Result<std::string>& answer,
                 Result<T> (*read)(std::string_view)) {
  if (!answer.ok()) return answer.error();
  Result<T> value = read(*answer);
  if (!value.ok()) helper.end();
  return value;
}

}  // namespace

Result<std::optional<unsigned>> DriverHelper::open() {
  end();
  if (Status started = start(); !started.ok()) return started.error();
  const auto driver = parsed(*this, ask("open", options_.start_limit), read_driver);
  if (!driver.ok()) return driver.error();
  if (driver->count >= 0) return std::optional(static_cast<unsigned>(driver->count));
  end();
  if (!driver->error.empty()) return silent(driver->error);
  return std::optional<unsigned>();
}

Result<GpuIdentity> DriverHelper::find(unsigned number) {
  return parsed(*this, ask("find " + std::to_string(number), options_.answer_limit), read_identity);
}

Result<GpuIdentity> DriverHelper::describe(unsigned number) {
  return parsed(*this, ask("describe " + std::to_string(number), options_.answer_limit),
                read_identity);
}

Result<std::vector<std::int32_t>> DriverHelper::xids(unsigned number) {
  return parsed(*this, ask("xids " + std::to_string(number), options_.answer_limit), read_xids);
}

Result<GpuReading> DriverHelper::read(unsigned number, bool list) {
  return parsed(*this,
                ask((list ? "list " : "read ") + std::to_string(number), options_.answer_limit),
                read_reading);
}

}  // namespace shoal::agent
