// TCP connections as descriptors, for those who wait for them by themselves or hand them to an
// emulated line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace shoal::wire {

// A connection to "host:port" that may still be on its way; -1 when the address names no host.
int begin_connect(const std::string& address);

// All addresses of "host:port" by numbers, in the order in which they are to be tried; empty when
// it names no host. May wait for the name service.
std::vector<std::string> numbers_of(const std::string& address);

// For a connection that was accepted: what begin_connect() sets on its own.
void tune_connection(int fd);

// A non-blocking listener. kUnavailable: the address is taken, or not one of this host.
Result<int> listen_at(const std::string& address);
int port_of_listener(int fd);

// "host:port" of the other end, by numbers; empty when it is gone or no TCP.
std::string number_of_peer(int fd);

}  // namespace shoal::wire
