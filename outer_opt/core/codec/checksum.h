// XXH3-64 over a payload in pieces, at the speed of this processor: a reduce hashes every byte that
// it sends and receives, so the hash is worth a version for AVX2. All versions give the same
// number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal::outer_opt {

struct ChecksumKernel {
  std::uint64_t (*once)(const void* data, std::size_t size);
  // A running hash in `state`, which has kChecksumStateSize bytes aligned to 64.
  void (*reset)(void* state);
  void (*update)(void* state, const void* data, std::size_t size);
  std::uint64_t (*finish)(const void* state);
};

inline constexpr std::size_t kChecksumStateSize = 1024;

extern const ChecksumKernel kChecksumPortable;
extern const ChecksumKernel kChecksumAvx2;  // null pointers where the compiler has no AVX2

const ChecksumKernel& checksum_kernel();  // the fastest that this processor has

// The same number of bytes that are seen piece by piece.
class RunningChecksum {
 public:
  RunningChecksum() { checksum_kernel().reset(state_); }
  void add(std::span<const std::byte> bytes) {
    checksum_kernel().update(state_, bytes.data(), bytes.size());
  }
  std::uint64_t value() const { return checksum_kernel().finish(state_); }

 private:
  alignas(64) std::byte state_[kChecksumStateSize];
};

}  // namespace shoal::outer_opt
