// Bytes as they are: between processes of one user on one host, and where a cluster has no
// certificates yet.
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

#include "wire/stream/carrier.h"

namespace shoal::wire::stream {
namespace {

constexpr std::size_t kPartsMax = 16;

class PlainCarrier final : public Carrier {
 public:
  explicit PlainCarrier(int fd) : fd_(fd) {}

  Step handshake() override { return {}; }

  Step read(std::span<std::byte> first, std::span<std::byte> rest) override {
    std::array<iovec, 2> parts = {iovec{first.data(), first.size()},
                                  iovec{rest.data(), rest.size()}};
    return step(readv(fd_, parts.data(), 2), Wait::kRead);
  }

  Step write(std::span<const std::span<const std::byte>> parts) override {
    std::array<iovec, kPartsMax> list;
    msghdr message{};
    message.msg_iov = list.data();
    for (const auto& part : parts.subspan(0, std::min(parts.size(), kPartsMax))) {
      list[message.msg_iovlen++] = {const_cast<std::byte*>(part.data()), part.size()};
    }
    return step(sendmsg(fd_, &message, MSG_NOSIGNAL), Wait::kWrite);
  }

  Error why() const override {
    const std::string how = errno_ == 0 ? "it closed the connection" : std::strerror(errno_);
    return {Code::kUnavailable, "the peer is gone: " + how, "", "try again"};
  }

  std::optional<identity::PeerName> peer() const override { return std::nullopt; }

 private:
  Step step(ssize_t moved, Wait wait) {
    if (moved > 0) return {static_cast<std::size_t>(moved), Wait::kNothing};
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return {0, wait};
    errno_ = moved < 0 ? errno : 0;
    return {0, Wait::kOver};
  }

  const int fd_;
  int errno_ = 0;
};

}  // namespace

std::unique_ptr<Carrier> make_plain_carrier(int fd) { return std::make_unique<PlainCarrier>(fd); }

}  // namespace shoal::wire::stream
