// The user at the other end of a Unix socket, as the kernel reports it.
#pragma once

#include <optional>

#include <sys/types.h>

namespace shoal::wire {

// The process at the other end when it is one of this user; nothing for another socket. 0 when it
// is in another process namespace.
std::optional<pid_t> process_behind(int fd);

}  // namespace shoal::wire
