// See tcp_listener.h.
#include "bench/streams/tcp_listener.h"

#include <array>
#include <cstdint>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "wire/tcp_socket.h"

namespace shoal::bench {
namespace {

constexpr int kPauseMs = 50;

}  // namespace

Result<std::unique_ptr<TcpListener>> TcpListener::start(const std::string& address, Accept accept) {
  const auto listener = wire::listen_at(address);
  if (!listener.ok()) return listener.error();
  const int waker = eventfd(0, EFD_CLOEXEC);
  SHOAL_CHECK(waker >= 0, "no descriptor is left");
  return std::unique_ptr<TcpListener>(new TcpListener(*listener, waker, std::move(accept)));
}

TcpListener::TcpListener(int listener, int waker, Accept accept)
    : listener_(listener),
      waker_(waker),
      port_(wire::port_of_listener(listener)),
      accept_(std::move(accept)),
      thread_([this] { run(); }) {}

TcpListener::~TcpListener() {
  const std::uint64_t one = 1;
  SHOAL_CHECK(write(waker_, &one, sizeof one) == sizeof one);
  thread_.join();
  close(listener_);
  close(waker_);
}

void TcpListener::run() {
  std::array<pollfd, 2> waits = {pollfd{waker_, POLLIN, 0}, pollfd{listener_, POLLIN, 0}};
  for (;;) {
    poll(waits.data(), waits.size(), -1);  // the destructor wakes it
    if (waits[0].revents != 0) return;
    if (waits[1].revents != 0) take();
  }
}

void TcpListener::take() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    wire::tune_connection(fd);
    return accept_(fd);
  }
  pollfd pause{waker_, POLLIN, 0};  // it went away again, or there are no descriptors for a while
  poll(&pause, 1, kPauseMs);
}

}  // namespace shoal::bench
