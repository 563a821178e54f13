// Where requests may go. A URL that a stranger wrote, or a server redirected to, must not make this
// host ask its own network: services there trust whoever can reach them.
//
// Threads: all functions may be called by any thread.
#pragma once

#include <string>

#include "base/result.h"

struct sockaddr;

namespace shoal::objects {

struct Reach {
  bool clear_allowed = false;    // http, not https, to hosts other than this one
  bool private_allowed = false;  // addresses that are not public, those of this host among them
  // The same for addresses that a redirect names, whoever named the first one.
  bool private_redirects_allowed = false;
  // http(s)://host:port of the proxy for all requests; empty: none. The variables http_proxy,
  // no_proxy and so on have no effect. The proxy looks names up, so it, and not the rules on
  // private addresses, decides which addresses are reached.
  std::string proxy = {};
};

// kValidation, with `field`: not empty, and no proxy of Reach.
Status check_proxy(const std::string& proxy, const std::string& field);

// Loopback, link-local, private, shared, reserved and multicast networks (RFC 6890), also inside of
// IPv6 addresses that carry one of IPv4. Other families than IPv4 and IPv6 are not public.
bool is_public(const sockaddr& address);
std::string to_text(const sockaddr& address);

// kValidation, with `field`: no URL of http or https, with a name or a password in it, or in clear
// against `reach`. The message does not repeat the query: it may be a secret.
Status check_url(const std::string& url, const Reach& reach, const std::string& field);

// The URL up to its query: what logs and messages may say of it.
std::string shown_url(const std::string& url);

// Whether a URL's host is "localhost" or a loopback address: nothing is looked up.
bool names_this_host(const std::string& url);

// `location` of a redirect, as seen from `url`; empty when the two make no URL.
std::string resolve(const std::string& url, const std::string& location);

}  // namespace shoal::objects
