// A plain HTTP client for the tests: one blocking connection that sends text and reads answers with
// Beast's parser, every wait with a deadline.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "coordinator/service/http/asio.h"

namespace shoal::coordinator::testing {

struct Received {
  int status = 0;                              // 0: the connection closed instead of answering
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
  std::string header(const std::string& name) const;
};

// The header with which the clients here show who they are: what the fixture has set. ask() adds it
// to every request that has neither Authorization nor Cookie.
std::string& login_line();

class Client {
 public:
  explicit Client(const std::string& address, int receive_buffer = 0);

  void send(std::string_view text);
  Received receive(bool head_only = false);
  Received ask(std::string_view method, std::string_view target, std::string_view headers = {},
               std::string_view body = {});

  // Raw bytes, for streams: until `text` holds `until` or the peer closes. False: closed or too
  // late.
  bool read_until(std::string& text, std::string_view until);
  bool closed();  // waits for the peer to close

 private:
  template <typename Start>
  std::pair<boost::system::error_code, std::size_t> wait(Start start);

  http_io::net::io_context io_;
  http_io::beast::tcp_stream stream_;
  http_io::beast::flat_buffer buffer_;
};

// One request on a connection of its own.
Received ask(const std::string& address, std::string_view method, std::string_view target,
             std::string_view headers = {}, std::string_view body = {});

// Events of an SSE text: id, event, data.
struct SseEvent {
  std::string id, event, data;
};
std::vector<SseEvent> parse_sse(const std::string& text);

}  // namespace shoal::coordinator::testing
