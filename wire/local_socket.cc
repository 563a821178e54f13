// See local_socket.h.
#include "wire/local_socket.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "wire/local_watch.h"
#include "wire/socket_owner.h"

namespace shoal::wire {
namespace {

constexpr int kBacklog = 256, kPauseMs = 50;
constexpr int kBufferBytes = 1 << 20;  // the system may give less
constexpr char kTensors[] = "shoal-peer-", kCompanions[] = "shoal-watch-";

// Calls bind or connect with the abstract name, which begins with a zero byte. False: it failed.
bool with_name(int fd, const std::string& name, int (*call)(int, const sockaddr*, socklen_t)) {
  sockaddr_un local{};
  if (name.size() + 1 > sizeof local.sun_path) return false;
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return call(fd, reinterpret_cast<const sockaddr*>(&local), size) == 0;
}

int new_socket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
  return fd;
}

void close_all(std::initializer_list<int> fds) {
  for (const int fd : fds) {
    if (fd >= 0) close(fd);
  }
}

bool listen_on(int fd, const std::string& name) {
  return fd >= 0 && with_name(fd, name, &bind) && listen(fd, kBacklog) == 0;
}

}  // namespace

int connect_locally(const std::string& address, Duration keepalive) {
  const int tensors = new_socket(), companion = new_socket();
  const bool here = tensors >= 0 && companion >= 0 &&
                    with_name(tensors, kTensors + address, &connect) &&
                    with_name(companion, kCompanions + address, &connect);
  const auto process = here ? process_behind(tensors) : std::nullopt;
  if (!process || process != process_behind(companion)) {
    close_all({tensors, companion});
    return -1;
  }
  LocalWatch& watch = LocalWatch::of_process();
  watch.guard(tensors, *process, watch.talk(companion, *process, keepalive * 2));
  return tensors;
}

Result<std::unique_ptr<LocalListener>> LocalListener::start(const std::string& address,
                                                            Duration keepalive, Accept accept) {
  const Sockets sockets = {new_socket(), new_socket(), eventfd(0, EFD_CLOEXEC)};
  if (sockets.waker >= 0 && listen_on(sockets.companions, kCompanions + address) &&
      listen_on(sockets.tensors, kTensors + address)) {
    return std::unique_ptr<LocalListener>(new LocalListener(sockets, keepalive, std::move(accept)));
  }
  const std::string why = std::strerror(errno);
  close_all({sockets.tensors, sockets.companions, sockets.waker});
  return Error{Code::kUnavailable, "cannot listen on the local socket of " + address + ": " + why};
}

LocalListener::LocalListener(const Sockets& sockets, Duration keepalive, Accept accept)
    : sockets_(sockets),
      keepalive_(keepalive),
      accept_(std::move(accept)),
      thread_([this] { run(); }) {}

LocalListener::~LocalListener() {
  const std::uint64_t one = 1;
  SHOAL_CHECK(write(sockets_.waker, &one, sizeof one) == sizeof one);
  thread_.join();
  close_all({sockets_.tensors, sockets_.companions, sockets_.waker});
}

void LocalListener::run() {
  std::array<pollfd, 3> waits = {pollfd{sockets_.waker, POLLIN, 0},
                                 pollfd{sockets_.companions, POLLIN, 0},
                                 pollfd{sockets_.tensors, POLLIN, 0}};
  for (;;) {
    poll(waits.data(), waits.size(), -1);  // the destructor wakes it
    if (waits[0].revents != 0) return;
    for (std::size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents != 0) take(waits[i].fd);
    }
  }
}

void LocalListener::take(int listener) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {  // it went away again, or there are no descriptors left for a while
    pollfd pause{sockets_.waker, POLLIN, 0};
    poll(&pause, 1, kPauseMs);
    return;
  }
  const auto process = process_behind(fd);
  if (!process) {
    close(fd);
  } else if (listener == sockets_.companions) {
    LocalWatch::of_process().talk(fd, *process, keepalive_ * 2);
  } else {
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
    LocalWatch::of_process().guard(fd, *process);
    accept_(fd);
  }
}

}  // namespace shoal::wire
