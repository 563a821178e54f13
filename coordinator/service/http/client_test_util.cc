#include "coordinator/service/http/client_test_util.h"

#include <chrono>
#include <sstream>

namespace shoal::coordinator::testing {
namespace {

namespace net = http_io::net;
namespace http = http_io::http;
constexpr auto kDeadline = std::chrono::seconds(20);

std::string request_text(std::string_view method, std::string_view target, std::string_view headers,
                         std::string_view body) {
  std::string text = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\n";
  if (headers.find("Host:") == std::string_view::npos) text += "Host: localhost\r\n";
  const bool shows = headers.find("Authorization:") != std::string_view::npos ||
                     headers.find("Cookie:") != std::string_view::npos;
  if (!shows) text += login_line();
  text += headers;
  if (!body.empty() || method == "POST" || method == "DELETE")
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + std::string(body);
}

}  // namespace

std::string& login_line() {
  static std::string line;
  return line;
}

std::string Received::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

Client::Client(const std::string& address, int receive_buffer) : stream_(io_) {
  const std::size_t colon = address.rfind(':');
  const http_io::tcp::endpoint endpoint(
      net::ip::make_address(address.substr(0, colon)),
      static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  stream_.socket().open(endpoint.protocol());
  if (receive_buffer > 0)
    stream_.socket().set_option(net::socket_base::receive_buffer_size(receive_buffer));
  stream_.socket().connect(endpoint);
}

// Runs one asynchronous operation to its end or to the deadline; gives its error and byte count.
template <typename Start>
std::pair<boost::system::error_code, std::size_t> Client::wait(Start start) {
  std::pair<boost::system::error_code, std::size_t> result;
  stream_.expires_after(kDeadline);
  start([&result](boost::system::error_code error, std::size_t n) { result = {error, n}; });
  io_.restart();
  io_.run();
  return result;
}

void Client::send(std::string_view text) {
  // An error is no failure yet: the server may have answered and closed before all was sent.
  wait([&](auto done) { net::async_write(stream_, net::buffer(text), done); });
}

Received Client::receive(bool head_only) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(std::uint64_t{64} << 20);
  parser.skip(head_only);
  const auto [error, n] =
      wait([&](auto done) { http::async_read(stream_, buffer_, parser, done); });
  Received received;
  if (error) return received;
  received.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    std::string name(field.name_string().data(), field.name_string().size());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    received.headers[name] = std::string(field.value().data(), field.value().size());
  }
  received.body = parser.get().body();
  return received;
}

Received Client::ask(std::string_view method, std::string_view target, std::string_view headers,
                     std::string_view body) {
  send(request_text(method, target, headers, body));
  return receive(method == "HEAD");
}

bool Client::read_until(std::string& text, std::string_view until) {
  char chunk[4096];
  while (text.find(until) == std::string::npos) {
    const auto [error, n] =
        wait([&](auto done) { stream_.async_read_some(net::buffer(chunk), done); });
    text.append(chunk, n);
    if (error) return false;
  }
  return true;
}

bool Client::closed() {
  char chunk[4096];
  for (;;) {
    const auto [error, n] =
        wait([&](auto done) { stream_.async_read_some(net::buffer(chunk), done); });
    if (error) return error != http_io::beast::error::timeout;
  }
}

Received ask(const std::string& address, std::string_view method, std::string_view target,
             std::string_view headers, std::string_view body) {
  return Client(address).ask(method, target, headers, body);
}

std::vector<SseEvent> parse_sse(const std::string& text) {
  std::vector<SseEvent> events;
  std::istringstream lines(text);
  SseEvent event;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() && !event.event.empty()) events.push_back(std::exchange(event, {}));
    if (line.starts_with("id: ")) event.id = line.substr(4);
    if (line.starts_with("event: ")) event.event = line.substr(7);
    if (line.starts_with("data: ")) event.data = line.substr(6);
  }
  return events;
}

}  // namespace shoal::coordinator::testing
