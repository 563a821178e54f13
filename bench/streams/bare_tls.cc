// See bare_tls.h.
#include "bench/streams/bare_tls.h"

#include <algorithm>
#include <atomic>

#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/streams/talk.h"
#include "identity/asio_ssl.h"

namespace shoal::bench {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr std::size_t kChunk = 1 << 20, kMemory = 64 << 20;

Error broken(const char* what) { return {Code::kUnavailable, what, "", ""}; }

bool write_all(SSL* ssl, std::span<const std::byte> bytes) {
  std::size_t written = 0;
  return SSL_write_ex(ssl, bytes.data(), bytes.size(), &written) == 1 && written == bytes.size();
}

bool read_all(SSL* ssl, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    std::size_t got = 0;
    if (SSL_read_ex(ssl, bytes.data(), bytes.size(), &got) != 1) return false;
    bytes = bytes.subspan(got);
  }
  return true;
}

}  // namespace

BareTls::~BareTls() {
  for (const auto* lines : {&out_, &in_}) {
    for (const Line& line : *lines) {
      SSL_free(line.ssl);
      if (line.fd >= 0) close(line.fd);
    }
  }
  if (listener_ >= 0) close(listener_);
}

Result<std::string> BareTls::listen() {
  const auto fd = wire::listen_at(place_.host + ":0");
  if (!fd.ok()) return fd.error();
  listener_ = *fd;
  sent_.assign(kMemory, std::byte{1});
  received_.resize(kMemory);
  return place_.host + ":" + std::to_string(wire::port_of_listener(listener_));
}

Result<BareTls::Line> BareTls::shake(int fd, bool dials) const {
  pollfd wait{fd, POLLOUT, 0};
  if (poll(&wait, 1, kPatienceMs) != 1) return broken("no connection");
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const auto& context = dials ? identity_.contexts.client : identity_.contexts.server;
  SSL* ssl = SSL_new(context->native_handle());
  SSL_set_fd(ssl, fd);
  SSL_set_read_ahead(ssl, 1);
  SSL_set_default_read_buffer_len(ssl, 128 << 10);
  if ((dials ? SSL_connect(ssl) : SSL_accept(ssl)) != 1) return broken("no handshake");
  return Line{fd, ssl};
}

// Each peer dials us once and says who it is.
void BareTls::accept_all() {
  for (std::size_t i = 1; i < in_.size(); ++i) {
    pollfd wait{listener_, POLLIN, 0};
    if (poll(&wait, 1, kPatienceMs) != 1) return;
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    wire::tune_connection(fd);
    const auto line = shake(fd, false);
    std::byte rank{};
    if (!line.ok() || !read_all(line->ssl, std::span(&rank, 1))) return;
    in_.at(std::to_integer<std::size_t>(rank)) = *line;
  }
}

Status BareTls::connect(const std::vector<std::string>& addresses) {
  out_.resize(addresses.size());
  in_.resize(addresses.size());
  std::jthread accepting([this] { accept_all(); });
  for (std::size_t peer = 0; peer < addresses.size(); ++peer) {
    if (static_cast<int>(peer) == place_.rank) continue;
    const auto line = shake(wire::begin_connect(addresses[peer]), true);
    if (!line.ok()) return line.error();
    const auto rank = static_cast<std::byte>(place_.rank);
    if (!write_all(line->ssl, std::span(&rank, 1))) return broken("no greeting");
    out_[peer] = *line;
  }
  accepting.join();
  const auto known = std::ranges::count_if(in_, [](const Line& l) { return l.ssl != nullptr; });
  return known + 1 == std::ssize(in_) ? Status() : broken("a peer has not dialed");
}

Status BareTls::flow(std::int64_t bytes_each) {
  std::atomic<bool> good{true};
  const auto pass = [&](const Line& line, std::span<std::byte> memory, bool writes) {
    for (std::int64_t moved = 0; good && moved < bytes_each;) {
      const auto left = static_cast<std::size_t>(bytes_each - moved);
      const auto at = static_cast<std::size_t>(moved) % (memory.size() - kChunk);
      const auto part = memory.subspan(at, std::min(left, kChunk));
      if (!(writes ? write_all(line.ssl, part) : read_all(line.ssl, part))) good = false;
      moved += static_cast<std::int64_t>(part.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const Line& line : out_) {
      if (line.ssl != nullptr) threads.emplace_back(pass, std::cref(line), std::span(sent_), true);
    }
    for (const Line& line : in_) {
      if (line.ssl != nullptr) {
        threads.emplace_back(pass, std::cref(line), std::span(received_), false);
      }
    }
  }
  return good ? Status() : broken("a connection broke");
}

Result<std::vector<std::int64_t>> BareTls::ping(std::size_t message, int count) {
  std::vector<std::int64_t> times;
  if (place_.rank > 1) return times;
  SSL *out = out_[1 - place_.rank].ssl, *in = in_[1 - place_.rank].ssl;
  const auto to = std::span(sent_).first(message);
  const auto from = std::span(received_).first(message);
  for (int i = 0; i < count; ++i) {
    const std::int64_t began = monotonic_ns();
    const bool good = place_.rank == 0 ? write_all(out, to) && read_all(in, from)
                                       : read_all(in, from) && write_all(out, to);
    if (!good) return broken("a connection broke");
    times.push_back(monotonic_ns() - began);
  }
  return times;
}

}  // namespace shoal::bench
