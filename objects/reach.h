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
};

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
