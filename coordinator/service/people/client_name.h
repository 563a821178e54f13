// The client whose share a connection takes, and whom a refusal names.
#pragma once

#include <string>

namespace shoal::coordinator {

// The client that an address stands for: an IPv4 address, the /64 of an IPv6 address, because one
// host may use any address of it, or "this host".
std::string client_of(const std::string& ip_address, bool is_this_host);

inline constexpr const char* kThisHost = "this host";

}  // namespace shoal::coordinator
