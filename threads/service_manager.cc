#include "threads/service_manager.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace shoal {
namespace {

std::string take_variable(const char* name) {
  const char* found = std::getenv(name);
  std::string text = found == nullptr ? "" : found;
  ::unsetenv(name);
  return text;
}

// -1 where there is none, or none that can be reached: a process serves without a manager as well.
int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool known = path.starts_with('/') || path.starts_with('@');
  if (!known || path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // of the abstract namespace
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last || number <= 0) return std::nullopt;
  return number;
}

// Half of the limit, as sd_watchdog_enabled(3) advises.
std::optional<Duration> watched_every(const std::string& limit_us, const std::string& pid) {
  const auto limit = number_of(limit_us);
  if (!limit || *limit > INT64_MAX / 1'000) return std::nullopt;
  if (!pid.empty() && number_of(pid) != std::int64_t{::getpid()}) return std::nullopt;
  return microseconds(*limit) / 2;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  manager.socket_ = connect_to(take_variable("NOTIFY_SOCKET"));
  const std::string limit_us = take_variable("WATCHDOG_USEC"), pid = take_variable("WATCHDOG_PID");
  if (manager.socket_ >= 0) manager.alive_every_ = watched_every(limit_us, pid);
  return manager;
}

ServiceManager::ServiceManager(ServiceManager&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      alive_every_(std::exchange(other.alive_every_, std::nullopt)),
      said_at_ns_(other.said_at_ns_.load()) {}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) ::close(socket_);
}

// A datagram that the manager has no room for is lost: the next one will do.
void ServiceManager::tell(const std::string& lines) const {
  if (socket_ >= 0) (void)::send(socket_, lines.data(), lines.size(), MSG_NOSIGNAL);
}

void ServiceManager::ready(const std::string& status) { tell("READY=1\nSTATUS=" + status + "\n"); }

void ServiceManager::stopping() { tell("STOPPING=1\n"); }

void ServiceManager::alive() {
  if (!alive_every_) return;
  const std::int64_t now =
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t before = said_at_ns_.load();
  // A quarter of the limit is early enough, and late enough to cost nothing.
  if (before != INT64_MIN && now - before < alive_every_->ns / 2) return;
  if (said_at_ns_.compare_exchange_strong(before, now)) tell("WATCHDOG=1\n");
}

}  // namespace shoal
