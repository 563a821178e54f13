// RLIMIT_NOFILE, the number of files and sockets that a process may have open. Shells set a soft
// limit of 1,024 for programs that use select(); Shoal uses epoll, so its servers take the hard
// one.
#pragma once

#include <cstddef>

namespace shoal {

// Raises the soft limit to the hard one, and returns the limit that holds now. Child processes
// inherit it.
std::size_t raise_descriptor_limit();

}  // namespace shoal
