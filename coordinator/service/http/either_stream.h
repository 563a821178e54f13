// One accepted connection that speaks TLS or plain HTTP: the client's first byte tells (0x16 begins
// a TLS handshake). A stream as Asio and Beast want it; before detect() has ended it is plain.
//
// Threads: as a socket, on its executor only. Time limits are those of lowest(): expires_after()
// there counts for what runs, TLS or not.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "coordinator/service/http/asio.h"

namespace shoal::coordinator::rest {

// Whether the other end is a program on this host, by a loopback address.
bool is_from_this_host(const http_io::tcp::socket& socket);

class EitherStream {
 public:
  using Context = http_io::net::ssl::context;
  using executor_type = http_io::beast::tcp_stream::executor_type;
  using next_layer_type = http_io::beast::tcp_stream;

  explicit EitherStream(http_io::tcp::socket socket);

  executor_type get_executor() noexcept { return tcp_.get_executor(); }
  next_layer_type& lowest() { return tcp_; }
  http_io::tcp::socket& socket() { return tcp_.socket(); }

  // Waits for the first bytes and does the handshake where they ask for one; `tls` null: TLS is
  // refused. What was read of a plain request is left in `buffer`. `done` runs once; the stream
  // must stay until then.
  void detect(std::shared_ptr<Context> tls, http_io::beast::flat_buffer& buffer,
              std::function<void(boost::system::error_code)> done);
  bool is_tls() const { return tls_ != nullptr; }
  bool is_from_this_host() const { return from_this_host_; }

  // Says the end: of TLS without waiting for the other side's, then of the socket.
  void shutdown_send();

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    tcp_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    tcp_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  using Tls = http_io::net::ssl::stream<http_io::beast::tcp_stream&>;

  http_io::beast::tcp_stream tcp_;
  bool from_this_host_ = false;
  std::shared_ptr<Context> context_;  // of this connection, also after it was renewed
  std::unique_ptr<Tls> tls_;
};

}  // namespace shoal::coordinator::rest
