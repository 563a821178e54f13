// What is checked of a request before anybody asks who sends it: against web pages that try to
// reach the server through a visitor's browser, and against secrets that travel in clear. Pure text
// and addresses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shoal::coordinator::rest {

struct BindAddress {
  std::string host;  // an IP address
  std::uint16_t port = 0;
  bool loopback = false;
};

// "127.0.0.1:7070", "[::1]:0", "localhost:7070". Names other than localhost are refused: what they
// mean can change.
Result<BindAddress> parse_bind(const std::string& text);

// A page can rebind its own name to our address, but not an IP address: those, localhost and
// `names` are let in, with any port. An absent Host (HTTP/1.0) is no browser.
bool host_allowed(std::string_view host_header, const std::vector<std::string>& names);

// An absent Origin is no browser; a present one must be the host that was asked, or
// `public_origin` (lower case), which a proxy in front of the server may have replaced in Host.
bool origin_allowed(std::string_view origin, std::string_view host_header,
                    std::string_view public_origin = {});

// The host of an origin, without its port: for host_allowed().
std::string host_of_origin(std::string_view origin);

// The client's id when it is short and plain, else empty.
std::string_view usable_request_id(std::string_view text);

// What is known of who asks, and of what.
struct Asked {
  bool from_this_host = true;
  bool over_tls = false;
  bool for_proof = false;      // Door::kProof
  bool clear_allowed = false;  // HttpOptions
};
// From another host neither a token nor a page that asks for one travels in clear; what a host
// joins with does so nowhere. Code permission_denied; none: it may.
Status check_line(const Asked& asked);

}  // namespace shoal::coordinator::rest
