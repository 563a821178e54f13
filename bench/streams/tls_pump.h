// TLS below a library that speaks plain text: a thread that carries bytes between a socket pair and
// a TLS connection, both ways. The library gets one end of the socket pair.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "base/result.h"
#include "wire/stream/node.h"

namespace shoal::bench {

class TlsPump {
 public:
  // `fd`: a TCP connection, non-blocking; it belongs to the pump. Blocks for the handshake.
  static Result<std::unique_ptr<TlsPump>> start(int fd, const wire::stream::TlsContexts& contexts,
                                                bool dials);
  ~TlsPump();
  TlsPump(const TlsPump&) = delete;
  TlsPump& operator=(const TlsPump&) = delete;

  int take_plain() { return std::exchange(plain_end_, -1); }  // the caller's from then on
  // A byte for the other end's pump, and from it: before begin().
  Status tell(std::byte what);
  Result<std::byte> hear();
  void begin();

 private:
  struct State;
  explicit TlsPump(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  int plain_end_ = -1;
  std::thread thread_;
};

}  // namespace shoal::bench
