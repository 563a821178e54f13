// See group_wire.h.
#include "trainer/model/group_wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shoal::trainer {
namespace {

using Clock = std::chrono::steady_clock;

Error gone(const std::string& why) {
  return {Code::kUnavailable, "the other end of the replica group " + why, "", ""};
}

// Until the socket can do `what`.
Status wait_for(int fd, short what, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return gone("does nothing in time");
    pollfd one{fd, what, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return gone(std::strerror(errno));
  }
}

Clock::time_point end_of(Duration limit) {
  return Clock::now() + std::chrono::nanoseconds(limit.ns);
}

Status send_all(int fd, std::span<const std::byte> bytes, Clock::time_point end) {
  while (!bytes.empty()) {
    if (Status ready = wait_for(fd, POLLOUT, end); !ready) return ready;
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return gone(std::strerror(errno));
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes, Clock::time_point end) {
  while (!bytes.empty()) {
    if (Status ready = wait_for(fd, POLLIN, end); !ready) return ready;
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return gone("is closed");
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
    if (got < 0 && errno != EAGAIN && errno != EINTR) return gone(std::strerror(errno));
  }
  return {};
}

}  // namespace

GroupSocket::~GroupSocket() { close(fd_); }

Status GroupSocket::send(GroupHeader header, const GroupPieces& payload, Duration limit) {
  const auto end = end_of(limit);
  header.size = 0;
  for (const auto& piece : payload) header.size += piece.size();
  if (Status sent = send_all(fd_, std::as_bytes(std::span(&header, 1)), end); !sent) return sent;
  for (const auto& piece : payload) {
    if (Status sent = send_all(fd_, piece, end); !sent) return sent;
  }
  return {};
}

bool GroupSocket::waiting() const {
  pollfd one{fd_, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

bool GroupSocket::gone() const {
  pollfd one{fd_, 0, 0};
  return poll(&one, 1, 0) > 0;  // POLLHUP and POLLERR come unasked
}

Result<GroupHeader> GroupSocket::receive(Duration limit) {
  GroupHeader header;
  const Status got = receive_all(fd_, std::as_writable_bytes(std::span(&header, 1)), end_of(limit));
  if (!got) return got.error();
  return header;
}

Status GroupSocket::receive(std::span<std::byte> payload, Duration limit) {
  return receive_all(fd_, payload, end_of(limit));
}

Status GroupSocket::skip(std::uint64_t size, Duration limit) {
  const auto end = end_of(limit);
  std::array<std::byte, 1 << 16> unwanted;
  while (size > 0) {
    const auto piece = std::span(unwanted).first(std::min<std::size_t>(size, unwanted.size()));
    if (Status got = receive_all(fd_, piece, end); !got) return got;
    size -= piece.size();
  }
  return {};
}

}  // namespace shoal::trainer
