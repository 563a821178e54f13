#include "coordinator/service/http/either_stream.h"

#include <openssl/ssl.h>

namespace shoal::coordinator::rest {
namespace {

namespace net = http_io::net;
namespace beast = http_io::beast;
using ErrorCode = boost::system::error_code;

}  // namespace

bool is_from_this_host(const http_io::tcp::socket& socket) {
  ErrorCode error;
  const auto peer = socket.remote_endpoint(error).address();
  if (error) return false;
  if (peer.is_v6() && peer.to_v6().is_v4_mapped()) {
    return net::ip::make_address_v4(net::ip::v4_mapped, peer.to_v6()).is_loopback();
  }
  return peer.is_loopback();
}

EitherStream::EitherStream(http_io::tcp::socket socket)
    : tcp_(std::move(socket)), from_this_host_(rest::is_from_this_host(tcp_.socket())) {}

void EitherStream::detect(std::shared_ptr<Context> tls, beast::flat_buffer& buffer,
                          std::function<void(ErrorCode)> done) {
  beast::async_detect_ssl(tcp_, buffer,
                          [this, tls = std::move(tls), &buffer, done = std::move(done)](
                              ErrorCode error, bool speaks_tls) mutable {
                            if (error || !speaks_tls) return done(error);
                            if (tls == nullptr) return done(net::error::operation_not_supported);
                            context_ = std::move(tls);
                            tls_ = std::make_unique<Tls>(tcp_, *context_);
                            tls_->async_handshake(net::ssl::stream_base::server, buffer.data(),
                                                  [&buffer, done = std::move(done)](
                                                      ErrorCode failed, std::size_t used) {
                                                    buffer.consume(used);
                                                    done(failed);
                                                  });
                          });
}

void EitherStream::shutdown_send() {
  ErrorCode ignored;
  if (tls_) {
    ::SSL_set_quiet_shutdown(tls_->native_handle(), 1);
    ::SSL_shutdown(tls_->native_handle());
  }
  tcp_.socket().shutdown(http_io::tcp::socket::shutdown_send, ignored);
}

}  // namespace shoal::coordinator::rest
