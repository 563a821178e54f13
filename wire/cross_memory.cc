// See cross_memory.h. The order of the two reads is what the promise rests on.
#include "wire/cross_memory.h"

#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"

namespace shoal::wire {
namespace {

std::uint64_t random_mark() {
  std::uint64_t mark = 0;
  while (mark == 0) {
    const ssize_t got = getrandom(&mark, sizeof mark, 0);
    SHOAL_CHECK(got == sizeof mark || errno == EINTR, "the system has no random numbers");
  }
  return mark;
}

Status read_from(pid_t process, std::uint64_t address, std::span<std::byte> out) {
  while (!out.empty()) {
    const iovec here = {out.data(), out.size()};
    const iovec there = {std::bit_cast<void*>(address), out.size()};
    const ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) {
      const std::string name = "process " + std::to_string(process);
      if (errno == ESRCH) return Error{Code::kNotFound, name + " is gone"};
      return Error{Code::kUnavailable, name + " cannot be read: " + std::strerror(errno)};
    }
    address += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

void add_number(std::string& text, std::uint64_t number) {
  std::array<char, 16> digits;
  text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number, 16).ptr);
}

}  // namespace

ReadableMemory::ReadableMemory() : mark_(random_mark()), standing_(mark_) {}

std::string ReadableMemory::token() const {
  std::string token;
  add_number(token, std::bit_cast<std::uintptr_t>(&standing_));
  token += '.';
  add_number(token, mark_);
  return token;
}

void ReadableMemory::end() {
  standing_.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::optional<PeerMemory> PeerMemory::open(pid_t process, std::string_view token) {
  std::uint64_t mark_at = 0, mark = 0;
  if (process <= 0 || !take_number(token, mark_at) || !token.starts_with('.')) return {};
  token.remove_prefix(1);
  if (!take_number(token, mark) || !token.empty() || mark == 0) return {};
  const PeerMemory memory(process, mark_at, mark);
  return memory.check_mark().ok() ? std::optional(memory) : std::nullopt;
}

Status PeerMemory::check_mark() const {
  std::uint64_t found = 0;
  Status status = read_from(process_, mark_at_, std::as_writable_bytes(std::span(&found, 1)));
  if (!status.ok() || found == mark_) return status;
  return Error{Code::kUnavailable,
               "process " + std::to_string(process_) + " no longer lets others read its memory"};
}

Status PeerMemory::read(std::uint64_t address, std::span<std::byte> out) const {
  if (Status status = read_from(process_, address, out); !status.ok()) return status;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return check_mark();
}

void let_siblings_read_memory() {
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, static_cast<unsigned long>(getppid()), 0, 0, 0);  // an error is "no Yama"
#endif
}

}  // namespace shoal::wire
