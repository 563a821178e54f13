// The line of link_emulation.h under real connections: each of them is cut in two, and a thread
// carries the bytes between the halves at the line's pace, 16 KiB of one connection after 16 KiB of
// another, so that small messages find their place beside a flood. What is carried is not looked
// at: handshakes and pings take as long as tensors do. A connection whose bytes wait for the line
// pushes back on its writer, as a full TCP connection does.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "threads/mutex.h"
#include "wire/link_emulation.h"

struct pollfd;

namespace shoal::wire {

// Thread-safe. Connections over it end with it.
class EmulatedLine {
 public:
  explicit EmulatedLine(const LinkOptions& options);
  ~EmulatedLine();
  EmulatedLine(const EmulatedLine&) = delete;
  EmulatedLine& operator=(const EmulatedLine&) = delete;

  // The descriptor to use instead of the connection `fd`, which belongs to the line from now on and
  // may still be connecting. For -1: a connection that has ended already.
  int pass(int fd);

  Duration round_trip() const { return options_.rtt; }

 private:
  class Connection;

  void run();
  std::optional<Instant> collect(std::vector<pollfd>& waits);
  void wake() const;

  const LinkOptions options_;
  LinkEmulation link_;
  const int waker_;
  Mutex mutex_;
  std::list<std::unique_ptr<Connection>> connections_;  // the thread's
  std::vector<std::unique_ptr<Connection>> new_ SHOAL_GUARDED_BY(mutex_);
  bool stopped_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal::wire
