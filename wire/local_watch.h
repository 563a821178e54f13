// Notices a frozen process at the other end of a local socket. gRPC's keep-alive cannot: its ping
// waits behind a write that a full Unix socket never takes, where TCP has a time limit of its own.
// So each connection has a companion, on which both ends say a byte four times a second; when the
// companion of a process is silent for too long, all connections with that process are shut down,
// which ends the streams on them. One thread for the whole process, begun with the first use.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>

#include <sys/types.h>

#include "base/time.h"
#include "threads/mutex.h"

namespace shoal::wire {

// Thread-safe; lives as long as the process.
class LocalWatch {
 public:
  static LocalWatch& of_process();

  using CompanionId = std::uint64_t;

  // Talks over `fd`, which belongs to the watch from now on, until the other end closes it. Silence
  // longer than `limit` is too long.
  CompanionId talk(int fd, pid_t process, Duration limit);
  // Shuts the connection down when `process` falls silent. Works on a duplicate of `fd`, which goes
  // when the connection has ended, and with it `companion` (0: none): who dials a connection has
  // dialled its companion, too.
  void guard(int fd, pid_t process, CompanionId companion = 0);
  std::size_t companions();  // that talk now

 private:
  using Clock = std::chrono::steady_clock;
  struct Guarded {
    int fd = -1;
    pid_t process = 0;
    CompanionId companion = 0;
  };
  struct Companion {
    CompanionId id = 0;
    int fd = -1;
    pid_t process = 0;
    std::chrono::nanoseconds limit{};
    Clock::time_point heard;
  };

  LocalWatch();
  void run();
  void tick() SHOAL_EXCLUDES(mutex_);
  bool forget_ended(const Guarded& guarded) SHOAL_REQUIRES(mutex_);
  void end_connections_with(pid_t process) SHOAL_REQUIRES(mutex_);

  Mutex mutex_;
  CompanionId last_companion_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::list<Guarded> guarded_ SHOAL_GUARDED_BY(mutex_);
  std::list<Companion> companions_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::wire
