#include "agent/host/tls_call.h"

#include <array>
#include <chrono>

// clang-format off
#include <utility>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
// clang-format on
#include <nlohmann/json.hpp>

#include "agent/host/network.h"
#include "threads/clock.h"

namespace shoal::agent {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using net::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::uint64_t kBodyMax = 256 << 10;

Error unreachable(const std::string& address, const std::string& why) {
  return {Code::kUnavailable, "no coordinator at " + address + ": " + why, "--enrol",
          "it is tried again; --enrol names the coordinator's HTTP address, by default port 7070"};
}

// Runs one step after the other on a loop of its own; the first that fails, or the deadline, ends
// them all.
class Call {
 public:
  Call(const TlsPeer& peer, std::shared_ptr<net::ssl::context> context, Duration limit)
      : peer_(peer),
        context_(std::move(context)),
        until_(std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit.ns)),
        stream_(io_, *context_) {}

  Status connect() {
    const auto far = address_to_dial(peer_.address, "--enrol");
    if (!far.ok()) return far.error();
    tcp::resolver resolver(io_);
    ErrorCode error;
    const auto found = resolver.resolve(far->host, std::to_string(far->port), error);
    if (error) return unreachable(peer_.address, error.message());
    error = run([&](auto done) {
      beast::get_lowest_layer(stream_).async_connect(
          found, [done](ErrorCode failed, const tcp::endpoint&) { done(failed); });
    });
    if (error) return unreachable(peer_.address, error.message());
    return {};
  }

  Status shake_hands() {
    const ErrorCode error = run([&](auto done) {
      stream_.async_handshake(net::ssl::stream_base::client, [done](ErrorCode e) { done(e); });
    });
    return error ? Status(failure_of(error)) : Status();
  }

  // The end of a connection without an alert says nothing of certificates.
  std::optional<Error> hear_alert() {
    std::array<char, 1> heard{};
    const ErrorCode error = run([&](auto done) {
      stream_.async_read_some(net::buffer(heard), [done](ErrorCode e, std::size_t) { done(e); });
    });
    if (error.category() != net::error::get_ssl_category()) return std::nullopt;
    return failure_of(error);
  }

  Result<http::response<http::string_body>> exchange(const std::string& path,
                                                     const std::string& body) {
    http::request<http::string_body> request(http::verb::post, path, 11, body);
    ErrorCode ignored;
    const auto host = beast::get_lowest_layer(stream_).socket().remote_endpoint(ignored).address();
    request.set(http::field::host, host.is_v6() ? "[" + host.to_string() + "]" : host.to_string());
    request.set(http::field::content_type, "application/json");
    request.prepare_payload();
    request.keep_alive(false);
    ErrorCode error = run([&](auto done) {
      http::async_write(stream_, request, [done](ErrorCode e, std::size_t) { done(e); });
    });
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kBodyMax);
    if (!error) {
      error = run([&](auto done) {
        http::async_read(stream_, buffer, parser, [done](ErrorCode e, std::size_t) { done(e); });
      });
    }
    if (error) return failure_of(error);
    return parser.release();
  }

 private:
  template <typename Start>
  ErrorCode run(const Start& start) {
    ErrorCode result = net::error::timed_out;
    bool ended = false;
    start([&](ErrorCode error) {
      result = error;
      ended = true;
    });
    io_.restart();
    io_.run_until(until_);
    if (!ended) {  // cancel the step, so that nothing refers to what is local here
      ErrorCode ignored;
      beast::get_lowest_layer(stream_).socket().close(ignored);
      io_.restart();
      io_.run();
      result = net::error::timed_out;
    }
    return result;
  }

  Error failure_of(const ErrorCode& error) {
    const bool tls = error.category() == net::error::get_ssl_category();
    const auto verdict = identity::verdict_of(stream_.native_handle());
    if (!tls && verdict.ok()) return unreachable(peer_.address, error.message());
    if (!tls && verdict.fault == identity::PeerFault::kNoCertificate)
      return unreachable(peer_.address, error.message());
    Error failure = identity::handshake_error(stream_.native_handle(),
                                              tls ? static_cast<unsigned long>(error.value()) : 0);
    if (may_pass(verdict.fault)) failure.code = Code::kUnavailable;
    return failure;
  }
  // A host's clock is often wrong until it has reached a time server.
  static bool may_pass(identity::PeerFault fault) {
    return fault == identity::PeerFault::kNotYetValid || fault == identity::PeerFault::kExpired;
  }

  const TlsPeer& peer_;
  const std::shared_ptr<net::ssl::context> context_;
  const std::chrono::steady_clock::time_point until_;
  net::io_context io_;
  net::ssl::stream<beast::tcp_stream> stream_;
};

Code code_of(unsigned status) {
  if (status == 401) return Code::kUnauthenticated;
  const bool passes = status == 408 || status == 422 || status == 429 || status >= 500;
  return passes ? Code::kUnavailable : Code::kPermissionDenied;
}

std::string text_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Error refusal_of(const http::response<http::string_body>& response, const std::string& address) {
  const auto problem = nlohmann::json::parse(response.body(), nullptr, false);
  if (!problem.is_object()) {
    return {Code::kUnavailable,
            "what answers at " + address + " is not a coordinator: HTTP " +
                std::to_string(response.result_int()),
            "--enrol", "name the coordinator's HTTP address"};
  }
  const auto errors = problem.find("errors");
  const bool named = errors != problem.end() && errors->is_array() && !errors->empty() &&
                     errors->front().is_object();
  return {code_of(response.result_int()), text_of(problem, "detail"),
          named ? text_of(errors->front(), "pointer") : "", text_of(problem, "hint")};
}

}  // namespace

Result<std::string> post_over_tls(const TlsPeer& peer, const std::string& path,
                                  const std::string& body, Duration limit) {
  auto context = identity::make_tls_context(peer.role, unix_now);
  if (!context) return context.error();
  Call call(peer, std::move(context).value(), limit);
  if (Status s = call.connect(); !s.ok()) return s.error();
  if (Status s = call.shake_hands(); !s.ok()) return s.error();
  auto response = call.exchange(path, body);
  if (!response) return response.error();
  if (response->result_int() / 100 == 2) return response->body();
  return refusal_of(*response, peer.address);
}

std::optional<Error> fault_of_handshake(const TlsPeer& peer, Duration limit) {
  auto context = identity::make_tls_context(peer.role, unix_now);
  if (!context) return context.error();
  Call call(peer, std::move(context).value(), limit);
  if (!call.connect().ok()) return std::nullopt;
  if (Status s = call.shake_hands(); !s.ok()) {
    if (s.error().code == Code::kUnavailable) return std::nullopt;
    return s.error();
  }
  return call.hear_alert();
}

}  // namespace shoal::agent
