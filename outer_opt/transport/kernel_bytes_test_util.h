// What crossed sockets by the kernel's own count, not by what somebody handed to a library.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::outer_opt {

// Bytes of TCP, sent and received, on the open connections of this process that were accepted at
// "host:port": what was sent again counts, headers of TCP and IP do not. Linux only.
std::int64_t kernel_bytes(const std::string& address);

}  // namespace shoal::outer_opt
