// For tests: one request over TLS to the server, pinned to a CA, and its answer as text.
#pragma once

#include <string>

#include "coordinator/service/http/asio.h"
#include "identity/join_token.h"
#include "identity/tls_context.h"

namespace shoal::coordinator::testing {

struct TlsAnswer {
  bool believed = false;  // the server's certificate was of the CA
  std::string text;       // everything until the server closed
};

inline TlsAnswer ask_over_tls(const std::string& address, const identity::Hash256& ca, Instant now,
                              const std::string& request) {
  namespace net = http_io::net;
  net::io_context io;
  const auto context = identity::make_tls_context(
      identity::Client{std::nullopt, ca, {.cluster = {}, .kind = identity::PeerKind::kCoordinator}},
      [now] { return now; });
  net::ssl::stream<http_io::tcp::socket> stream(io, **context);
  const auto colon = address.rfind(':');
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)));
  stream.next_layer().connect({net::ip::make_address(address.substr(0, colon)), port});
  const timeval limit{20, 0};
  ::setsockopt(stream.next_layer().native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  TlsAnswer answer;
  boost::system::error_code error;
  stream.handshake(net::ssl::stream_base::client, error);
  if (error) return answer;
  answer.believed = true;
  net::write(stream, net::buffer(request), error);
  net::read(stream, net::dynamic_buffer(answer.text), error);
  return answer;
}

inline std::string post_text(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: " +
         "application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace shoal::coordinator::testing
