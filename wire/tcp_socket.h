// TCP connections as descriptors, for those who hand them to gRPC or to an emulated line
// themselves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace shoal::wire {

// What peers are sent goes by this congestion control where the kernel has it: lost packets slow it
// down by little, where reno and cubic stop on long lines (docs/lines.md). Elsewhere by the
// kernel's default.
inline constexpr char kCongestionControl[] = "bbr";

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

// Whether the host is given by its number: then it has one address, and nobody has to be asked.
bool names_number(const std::string& address);

// A look at a connection that belongs to somebody else. Keeps it from being closed, not from being
// shut down.
class TcpWatch {
 public:
  explicit TcpWatch(int fd);
  ~TcpWatch();
  TcpWatch(const TcpWatch&) = delete;
  TcpWatch& operator=(const TcpWatch&) = delete;
  bool stands() const;  // or is on its way

 private:
  const int fd_;
};

// As the handshake measured it, queues on the way included; zero: no connection over TCP.
Duration round_trip_of(int fd);

// Listens with a thread of its own and hands over each connection, a non-blocking descriptor that
// belongs to `accept` from then on. Stops with its end.
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

}  // namespace shoal::wire
