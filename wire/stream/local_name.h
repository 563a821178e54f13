// The shorter way between processes of one host: besides its TCP port a node listens on a Unix
// socket in the abstract namespace whose name is made from the address that it advertises. Such
// names belong to a network namespace, so a process elsewhere finds none, at once. There is no
// TLS: only processes of the same user are believed, and the kernel says who they are.
#pragma once

#include <string>

#include "base/result.h"

namespace shoal::wire::stream {

// A connection, non-blocking; -1 when no process of this user listens there.
int connect_by_name(const std::string& address);

// A listener, non-blocking. kUnavailable: the name is taken.
Result<int> listen_by_name(const std::string& address);

}  // namespace shoal::wire::stream
