// See socket_owner.h.
#include "wire/socket_owner.h"

#include <sys/socket.h>
#include <unistd.h>

namespace shoal::wire {

std::optional<pid_t> process_behind(int fd) {
  ucred owner{};
  socklen_t size = sizeof owner;
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0;
  return known && owner.uid == geteuid() ? std::optional(owner.pid) : std::nullopt;
}

}  // namespace shoal::wire
