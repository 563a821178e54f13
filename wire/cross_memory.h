// Cross-memory attach, the shortest way between processes of one host: a reader copies from the
// memory of the owner with process_vm_readv(2): one copy, no message that carries it, no buffer
// between. The owner tells the reader an address over a connection that both trust. The reader says
// first whether it may read at all, because a system can forbid it (another user, another process
// namespace, a seccomp filter, Yama).
//
// The end of the permission needs no message. Each owner has a mark, a random number in its own
// memory, and wipes it before the memory may change. The reader looks at the mark after the data:
// if it stands, the data had not changed. So a reader never takes what it read too late, from a
// process that is gone, or from another one that has its number now.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/result.h"

namespace shoal::wire {

// Thread-safe.
class ReadableMemory {
 public:
  ReadableMemory();
  ~ReadableMemory() { end(); }
  ReadableMemory(const ReadableMemory&) = delete;
  ReadableMemory& operator=(const ReadableMemory&) = delete;

  // For PeerMemory::open() in the reader; ASCII, below 64 characters.
  std::string token() const;
  // No read that ends after this succeeds: the memory may change.
  void end();

 private:
  const std::uint64_t mark_;
  std::atomic<std::uint64_t> standing_;  // the mark, 0 after the end
};

// The memory of another process. Thread-safe.
class PeerMemory {
 public:
  // Nothing when the token is none, or this process may not read the memory of that one.
  static std::optional<PeerMemory> open(pid_t process, std::string_view token);

  // Copies out.size() bytes from `address` in its owner. kUnavailable: it may not be read any more;
  // kNotFound: the process is gone. `out` has no meaning then.
  Status read(std::uint64_t address, std::span<std::byte> out) const;

 private:
  PeerMemory(pid_t process, std::uint64_t mark_at, std::uint64_t mark)
      : process_(process), mark_at_(mark_at), mark_(mark) {}
  Status check_mark() const;

  pid_t process_;
  std::uint64_t mark_at_, mark_;
};

// Where Yama lets only ancestors read a process's memory: allows the one that started this process
// and all that it started, as an agent starts the trainers of a host. Without Yama nothing happens.
void let_siblings_read_memory();

}  // namespace shoal::wire
