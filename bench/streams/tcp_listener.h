// Listens with a thread of its own and hands over each connection, a non-blocking descriptor that
// belongs to `accept` from then on. Stops with its end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"

namespace shoal::bench {

class TcpListener {
 public:
  using Accept = std::function<void(int fd)>;

  // kUnavailable: the address is taken, or not one of this host.
  static Result<std::unique_ptr<TcpListener>> start(const std::string& address, Accept accept);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  int port() const { return port_; }

 private:
  TcpListener(int listener, int waker, Accept accept);
  void run();
  void take();

  const int listener_, waker_, port_;
  const Accept accept_;
  std::thread thread_;
};

}  // namespace shoal::bench
