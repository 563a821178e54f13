// TLS 1.3 by OpenSSL over a descriptor, with a BIO of our own: OpenSSL's writes without
// MSG_NOSIGNAL, and cannot say that more follows.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/check.h"
#include "identity/asio_ssl.h"
#include "identity/tls_context.h"
#include "wire/stream/carrier.h"

namespace shoal::wire::stream {
namespace {

constexpr std::size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t kReadAhead = 64 << 10;  // records that one call reads
constexpr std::size_t kHeld = 256 << 10;      // and sends: a piece of a message

// Records behind which more follow are held back, up to kHeld, so that one call sends several: a
// call for each costs more than the copy.
struct Socket {
  int fd = -1;
  bool more_follows = false;  // of what is being written: then another write follows for certain
  std::vector<char> held;
  std::size_t sent = 0;  // of it
};

int retry(BIO* bio, ssize_t moved, int flag) {
  BIO_clear_retry_flags(bio);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
    BIO_set_flags(bio, flag | BIO_FLAGS_SHOULD_RETRY);
  }
  return static_cast<int>(moved);
}

// How much of `data` was sent behind all that was held back; -1: none of it yet.
ssize_t send_held_and(Socket& socket, const char* data, std::size_t size) {
  const std::span<char> held = std::span(socket.held).subspan(socket.sent);
  iovec parts[] = {{held.data(), held.size()}, {const_cast<char*>(data), size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  const int flags = MSG_NOSIGNAL | (socket.more_follows ? MSG_MORE : 0);
  const ssize_t sent = sendmsg(socket.fd, &message, flags);
  if (sent < 0) return sent;
  const auto of_data = sent - static_cast<ssize_t>(held.size());
  if (of_data <= 0) {
    socket.sent += static_cast<std::size_t>(sent);
    errno = EAGAIN;
    return -1;
  }
  socket.held.clear();
  socket.sent = 0;
  return of_data;
}

int write_bio(BIO* bio, const char* data, int size) {
  auto& socket = *static_cast<Socket*>(BIO_get_data(bio));
  const auto length = static_cast<std::size_t>(size);
  if (socket.more_follows && socket.held.size() + length <= kHeld) {
    BIO_clear_retry_flags(bio);
    socket.held.insert(socket.held.end(), data, data + size);
    return size;
  }
  return retry(bio, send_held_and(socket, data, length), BIO_FLAGS_WRITE);
}

int read_bio(BIO* bio, char* data, int size) {
  const auto* socket = static_cast<const Socket*>(BIO_get_data(bio));
  errno = 0;  // an end is no error
  return retry(bio, recv(socket->fd, data, static_cast<std::size_t>(size), 0), BIO_FLAGS_READ);
}

long control_bio(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "shoal socket");
    SHOAL_CHECK(made != nullptr && BIO_meth_set_write(made, write_bio) == 1 &&
                    BIO_meth_set_read(made, read_bio) == 1 &&
                    BIO_meth_set_ctrl(made, control_bio) == 1,
                "OpenSSL has no memory");
    return made;
  }();
  return method;
}

class TlsCarrier final : public Carrier {
 public:
  TlsCarrier(int fd, std::shared_ptr<boost::asio::ssl::context> context, bool dials,
             const std::optional<identity::ExpectedPeer>& expected)
      : context_(std::move(context)), socket_{.fd = fd}, ssl_(SSL_new(context_->native_handle())) {
    BIO* bio = BIO_new(socket_method());
    SHOAL_CHECK(ssl_ != nullptr && bio != nullptr, "OpenSSL has no memory");
    BIO_set_data(bio, &socket_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    SSL_set_mode(ssl_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_read_ahead(ssl_, 1);
    SSL_set_default_read_buffer_len(ssl_, kReadAhead);
    if (expected) identity::expect_peer(ssl_, *expected);
    dials ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  ~TlsCarrier() override { SSL_free(ssl_); }
  TlsCarrier(const TlsCarrier&) = delete;
  TlsCarrier& operator=(const TlsCarrier&) = delete;

  Step handshake() override {
    ERR_clear_error();
    return step(SSL_do_handshake(ssl_), 0);
  }

  Step read(std::span<std::byte> first, std::span<std::byte> rest) override {
    const std::span<std::byte> into = first.empty() ? rest : first;
    std::size_t moved = 0;
    socket_.more_follows = false;  // behind an alert that this may send
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_, into.data(), into.size(), &moved);
    return step(result, moved);
  }

  Step write(std::span<const std::span<const std::byte>> parts) override {
    if (pending_ > 0) return write_record(record_.data(), pending_);
    const std::span<const std::byte> front = parts.front();
    const std::size_t size = std::min(front.size(), kRecord);
    if (size == kRecord || parts.size() == 1) {
      socket_.more_follows = parts.size() > 1 || front.size() > size;
      return write_record(front.data(), size);
    }
    const std::size_t gathered = gather(parts);
    return write_record(record_.data(), gathered);
  }

  Error why() const override {
    if (!over_) return {Code::kInternal, "nothing is wrong with the connection", "", ""};
    return *over_;
  }

  std::optional<RefusalReason> refusal() const override {
    return identity::refusal_of(ssl_, error_);
  }

  std::optional<identity::PeerName> peer() const override {
    const identity::PeerVerdict verdict = identity::verdict_of(ssl_);
    return verdict.ok() ? verdict.name : std::nullopt;
  }

 private:
  // Small parts share a record. From a large one it takes only what exceeds whole records, which
  // are then encrypted in place.
  std::size_t gather(std::span<const std::span<const std::byte>> parts) {
    std::size_t size = 0;
    socket_.more_follows = false;
    for (const auto& part : parts) {
      std::size_t taken = part.size();
      if (taken > kRecord - size) taken %= kRecord;
      if (taken > kRecord - size) taken = 0;
      std::memcpy(record_.data() + size, part.data(), taken);
      size += taken;
      socket_.more_follows = taken < part.size();
      if (socket_.more_follows) break;
    }
    return size;
  }

  // A record that OpenSSL has made and could not send whole is asked for by its size alone.
  Step write_record(const std::byte* data, std::size_t size) {
    std::size_t moved = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_, data, size, &moved);
    const Step done = step(result, moved);
    pending_ = done.wait == Wait::kWrite ? size : 0;
    return done;
  }

  Step step(int result, std::size_t moved) {
    if (result == 1) return {moved, Wait::kNothing};
    const int system_error = errno;
    switch (SSL_get_error(ssl_, result)) {
      case SSL_ERROR_WANT_READ:
        return {0, Wait::kRead};
      case SSL_ERROR_WANT_WRITE:
        return {0, Wait::kWrite};
      default:
        error_ = ERR_peek_last_error();
        over_ = reason(error_, system_error);
        return {0, Wait::kOver};
    }
  }

  Error reason(unsigned long error, int system_error) const {
    const bool is_refusal =
        error != 0 && ERR_GET_REASON(error) != SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (is_refusal || SSL_is_init_finished(ssl_) != 1) {
      return identity::handshake_error(ssl_, error);
    }
    const bool closed = error != 0 || system_error == 0 || system_error == EAGAIN;
    const std::string how = closed ? "it closed the connection" : std::strerror(system_error);
    return {Code::kUnavailable, "the peer is gone: " + how, "", "try again"};
  }

  const std::shared_ptr<boost::asio::ssl::context> context_;
  Socket socket_;
  SSL* const ssl_;
  std::array<std::byte, kRecord> record_;
  std::size_t pending_ = 0;  // of a record that waits to be sent
  std::optional<Error> over_;
  unsigned long error_ = 0;  // OpenSSL's, with which it ended
};

}  // namespace

std::unique_ptr<Carrier> make_tls_carrier(int fd,
                                          std::shared_ptr<boost::asio::ssl::context> context,
                                          bool dials,
                                          const std::optional<identity::ExpectedPeer>& expected) {
  return std::make_unique<TlsCarrier>(fd, std::move(context), dials, expected);
}

}  // namespace shoal::wire::stream
