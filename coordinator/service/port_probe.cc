#include "coordinator/service/port_probe.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/host_port.h"
#include "threads/clock.h"
#include "threads/descriptor.h"
#include "threads/sleep.h"

namespace shoal::coordinator {
namespace {

template <auto kFree>
struct Frees {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using ContextPtr = std::unique_ptr<SSL_CTX, Frees<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Frees<SSL_free>>;
using FoundPtr = std::unique_ptr<addrinfo, Frees<freeaddrinfo>>;

Error failed(const std::string& what) {
  return {Code::kUnavailable, "the agents' port " + what, "", "restart the coordinator"};
}

std::string words_of_errno() { return std::strerror(errno); }

std::string words_of_tls(const SSL* tls) {
  if (const long verdict = SSL_get_verify_result(tls); verdict != X509_V_OK) {
    return X509_verify_cert_error_string(verdict);
  }
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "the connection was closed" : reason;
}

class Handshake {
 public:
  explicit Handshake(const PortProbeOptions& options)
      : options_(options), until_(steady_now() + options.limit) {}

  Status run() {
    if (Status s = connect(); !s.ok()) return s;
    if (Status s = prepare(); !s.ok()) return s;
    for (;;) {
      ERR_clear_error();
      const int done = SSL_do_handshake(tls_.get());
      if (done == 1) return {};  // what this side would send now stays in its buffer
      if (SSL_get_error(tls_.get(), done) != SSL_ERROR_WANT_READ) {
        return failed("shows a certificate that is not valid: " + words_of_tls(tls_.get()));
      }
      if (Status s = flush(); !s.ok()) return s;
      if (Status s = read_some(); !s.ok()) return s;
    }
  }

 private:
  Status connect() {
    const auto at = read_host_port(options_.address);
    if (!at) return failed("has no address: " + options_.address);
    const bool is_any = at->host == "0.0.0.0" || at->host == "::";
    const std::string host = is_any ? "127.0.0.1" : at->host;
    addrinfo wanted{}, *list = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(host.c_str(), std::to_string(at->port).c_str(), &wanted, &list) != 0) {
      return failed("has an address that is not known any more: " + host);
    }
    const FoundPtr found(list);
    socket_ = Descriptor(::socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_) return failed("could not be probed: " + words_of_errno());
    if (!announce(list->ai_family)) return failed("could not be probed: " + words_of_errno());
    if (::connect(socket_.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
      return failed("refuses connections: " + words_of_errno());
    }
    if (!wait_for(POLLOUT)) return failed("accepts no connection");
    int number = 0;
    socklen_t size = sizeof number;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &number, &size);
    return number == 0
               ? Status()
               : Status(failed("refuses connections: " + std::string(std::strerror(number))));
  }

  // Takes a port before the connection begins.
  bool announce(int family) {
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&any), size) != 0) return false;
    if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0) return false;
    options_.announce(ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in&>(any).sin_port
                                              : reinterpret_cast<sockaddr_in6&>(any).sin6_port));
    return true;
  }

  Status prepare() {
    context_ = ContextPtr(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
    if (SSL_CTX_load_verify_file(context_.get(), options_.roots_file.c_str()) != 1) {
      return failed("cannot be checked: " + options_.roots_file + " has no readable roots");
    }
    static constexpr std::array<unsigned char, 3> kHttp2{2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_.get(), kHttp2.data(), kHttp2.size());
    tls_ = SslPtr(SSL_new(context_.get()));
    SSL_set_verify(tls_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_set1_host(tls_.get(), options_.name.c_str());
    SSL_set_tlsext_host_name(tls_.get(), options_.name.c_str());
    SSL_set_connect_state(tls_.get());
    SSL_set_bio(tls_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    return {};
  }

  bool wait_for(short events) const {
    pollfd one{socket_.get(), events, 0};
    const Duration left = until_ - steady_now();
    return left > Duration() && ::poll(&one, 1, static_cast<int>(left.ms()) + 1) == 1;
  }

  Status flush() {
    std::array<char, 4096> bytes{};
    for (int size; (size = BIO_read(SSL_get_wbio(tls_.get()), bytes.data(), bytes.size())) > 0;) {
      if (::send(socket_.get(), bytes.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL) !=
          size) {
        return failed("ends connections: " + words_of_errno());
      }
    }
    return {};
  }

  Status read_some() {
    std::array<char, 4096> bytes{};
    if (!wait_for(POLLIN)) {
      return failed("does not answer a TLS handshake within " +
                    std::to_string(options_.limit.ms() / 1'000) + " s");
    }
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return failed("ends connections before their handshake");
    BIO_write(SSL_get_rbio(tls_.get()), bytes.data(), static_cast<int>(got));
    return {};
  }

  const PortProbeOptions& options_;
  const Instant until_;
  Descriptor socket_;
  ContextPtr context_;
  SslPtr tls_;
};

}  // namespace

Status probe_port(const PortProbeOptions& options) { return Handshake(options).run(); }

PortProbe::PortProbe(PortProbeOptions options)
    : options_(std::move(options)), thread_([this](const std::stop_token& stop) {
        for (Duration pause;;) {
          Status found = probe_port(options_);
          pause = found.ok() ? options_.every : options_.again;
          {
            const MutexLock guard(mutex_);
            last_ = std::move(found);
          }
          if (!sleep_unless_stopped(pause, stop)) return;
        }
      }) {}

Status PortProbe::status() const {
  const MutexLock guard(mutex_);
  return last_;
}

}  // namespace shoal::coordinator
