// Carries bytes between two connections, both ways, until either is over. It neither reads nor
// keeps them: what passes is TLS between two trainers.
//
// Bounds. 64 KiB each way. It ends when nothing has passed either way for `idle_limit`; streams say
// something every few seconds (wire/stream/lane.h). A rate, if there is one, is shared by all that
// have the same Pace.
//
// Threads: the I/O thread of its context only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/time.h"
#include "wire/relay/socket.h"

namespace shoal::wire::relay {

// A token bucket of bytes.
class Pace {
 public:
  // Zero: no limit.
  explicit Pace(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  // How long to wait after moving that many bytes.
  Duration take(std::size_t bytes, Instant now);

 private:
  static constexpr Duration kBurst = milliseconds(50);
  const double bytes_per_second_;
  Instant free_at_;  // when everything taken so far has passed
};

class Splice : public std::enable_shared_from_this<Splice> {
 public:
  using Moved = std::function<void(std::size_t bytes)>;
  using Over = std::function<void()>;  // once, after both are closed

  // Owns both descriptors.
  Splice(net::io_context& io, int a, int b, std::shared_ptr<Pace> pace, Duration idle_limit);
  void run(Moved moved, Over over);
  void close();

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;
  struct Way {
    Socket* from = nullptr;
    Socket* to = nullptr;
    std::vector<char> bytes;
    net::steady_timer pause;
    bool ended = false;
  };
  void read(Way& way);
  void write(Way& way, std::size_t size);
  void rest(Way& way, std::size_t size);
  void end(Way& way);
  void watch();

  Socket a_, b_;
  const std::shared_ptr<Pace> pace_;
  const Duration idle_limit_;
  net::steady_timer idle_;
  bool moved_since_ = false, is_over_ = false;
  Moved moved_;
  Over over_;
  std::array<Way, 2> ways_;
};

}  // namespace shoal::wire::relay
