#include "base/host_port.h"

#include <charconv>

#include "base/wire_text.h"

namespace shoal {

std::string HostPort::text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::optional<std::uint16_t> read_port(std::string_view digits) {
  std::uint16_t port = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, failure] = std::from_chars(digits.data(), last, port);
  if (failure != std::errc() || end != last) return std::nullopt;
  return port;
}

std::optional<HostPort> read_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const auto port = read_port(text.substr(colon + 1));
  const bool bracketed = host.starts_with('[');
  const bool bare_ipv6 = !bracketed && host.find(':') != std::string_view::npos;
  if (!port || bare_ipv6 || !is_host_text(host)) return std::nullopt;
  if (bracketed) host = host.substr(1, host.size() - 2);
  return HostPort{std::string(host), *port};
}

bool is_loopback_host(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

}  // namespace shoal
