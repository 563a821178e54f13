// host:port, taken apart and put together: the one reader of such texts. It says what a text holds;
// the reader of a flag or a message says what is wrong with it and what would be accepted. Pure:
// no name is looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shoal {

struct HostPort {
  std::string host;  // a name or a number, without brackets
  std::uint16_t port = 0;

  std::string text() const;  // with brackets around IPv6
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "10.0.0.7:7071", "node:0", "[::1]:7070": a host as is_host_text() takes it, IPv6 in brackets, and
// a port from 0 to 65,535. None: anything else.
std::optional<HostPort> read_host_port(std::string_view text);

// Digits only, 0 to 65,535.
std::optional<std::uint16_t> read_port(std::string_view digits);

// Whether nothing but this host can be meant: "127.…", "::1", with or without brackets, or
// "localhost".
bool is_loopback_host(std::string_view host);

}  // namespace shoal
