// A shorter way between processes of one host: besides its TCP port a peer listens on Unix sockets
// whose names in the abstract namespace are made from the address that it advertises, so nobody has
// to be told of them. Abstract names belong to a network namespace: whoever is on another host or
// in another namespace finds no such name, at once, and takes TCP. A name that a process of another
// user holds is not believed. Frozen processes are the business of local_watch.h.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <sys/types.h>

#include "base/result.h"
#include "base/time.h"

namespace shoal::wire {

// A connection to the peer that advertises `address` ("host:port"): a non-blocking descriptor for
// the caller, ended when the peer is silent for two of `keepalive`. -1 when no process of this user
// listens there in this network namespace. Does not block.
int connect_locally(const std::string& address, Duration keepalive);

// Listens on the local sockets of `address` with a thread of its own and hands over each
// connection, a non-blocking descriptor that belongs to `accept` from then on. Stops with its end.
class LocalListener {
 public:
  using Accept = std::function<void(int fd)>;

  // kUnavailable: the name is taken, or the system has no such sockets.
  static Result<std::unique_ptr<LocalListener>> start(const std::string& address,
                                                      Duration keepalive, Accept accept);
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

 private:
  struct Sockets {
    int tensors = -1, companions = -1, waker = -1;
  };
  LocalListener(const Sockets& sockets, Duration keepalive, Accept accept);
  void run();
  void take(int listener);

  const Sockets sockets_;
  const Duration keepalive_;
  const Accept accept_;
  std::thread thread_;
};

}  // namespace shoal::wire
