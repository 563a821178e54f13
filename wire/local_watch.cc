// See local_watch.h.
#include "wire/local_watch.h"

#include <array>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shoal::wire {
namespace {

constexpr auto kTick = std::chrono::milliseconds(250);

// Nobody reads or writes it any more.
bool has_ended(int fd) {
  pollfd wait{fd, 0, 0};
  return poll(&wait, 1, 0) > 0;
}

enum class Heard { kNothing, kSomething, kEnd };

Heard hear(int fd) {
  std::array<char, 64> bytes;
  const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n > 0) return Heard::kSomething;
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? Heard::kNothing : Heard::kEnd;
}

}  // namespace

LocalWatch& LocalWatch::of_process() {
  static auto* watch = new LocalWatch;  // its thread runs until the process ends
  return *watch;
}

LocalWatch::LocalWatch() {
  std::thread([this] { run(); }).detach();
}

LocalWatch::CompanionId LocalWatch::talk(int fd, pid_t process, Duration limit) {
  const MutexLock lock(mutex_);
  companions_.push_back(
      {++last_companion_, fd, process, std::chrono::nanoseconds(limit.ns), Clock::now()});
  return last_companion_;
}

void LocalWatch::guard(int fd, pid_t process, CompanionId companion) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;  // no descriptors left: gRPC's keep-alive has to do
  const MutexLock lock(mutex_);
  guarded_.push_back({copy, process, companion});
}

std::size_t LocalWatch::companions() {
  const MutexLock lock(mutex_);
  return companions_.size();
}

void LocalWatch::run() {
  for (;;) {
    std::this_thread::sleep_for(kTick);
    tick();
  }
}

void LocalWatch::tick() {
  const MutexLock lock(mutex_);
  const auto now = Clock::now();
  guarded_.remove_if([this](const Guarded& each)
                         SHOAL_REQUIRES(mutex_) { return forget_ended(each); });
  companions_.remove_if([&](Companion& each) SHOAL_REQUIRES(mutex_) {
    const Heard heard = hear(each.fd);
    if (heard == Heard::kSomething) each.heard = now;
    const bool silent = now - each.heard > each.limit;
    if (silent) end_connections_with(each.process);
    if (silent || heard == Heard::kEnd) return close(each.fd) == 0;
    send(each.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return false;
  });
}

bool LocalWatch::forget_ended(const Guarded& guarded) {
  if (!has_ended(guarded.fd)) return false;
  close(guarded.fd);
  companions_.remove_if(
      [&](const Companion& each) { return each.id == guarded.companion && close(each.fd) == 0; });
  return true;
}

// Their descriptors go with the next tick.
void LocalWatch::end_connections_with(pid_t process) {
  for (const Guarded& each : guarded_) {
    if (each.process == process) shutdown(each.fd, SHUT_RDWR);
  }
}

}  // namespace shoal::wire
