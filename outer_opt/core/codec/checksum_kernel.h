// The body of a ChecksumKernel, compiled once per instruction set: each including file defines the
// flags and gets its own static copy of the hash. To be included by checksum.cc and
// checksum_avx2.cc only, and to include nothing whose inline functions could be shared between
// them.
#pragma once

#include "outer_opt/core/codec/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shoal::outer_opt {
namespace {

static_assert(sizeof(XXH3_state_t) <= kChecksumStateSize);

std::uint64_t hash_once(const void* data, std::size_t size) { return XXH3_64bits(data, size); }
void hash_reset(void* state) { XXH3_64bits_reset(static_cast<XXH3_state_t*>(state)); }
void hash_update(void* state, const void* data, std::size_t size) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, size);
}
std::uint64_t hash_finish(const void* state) {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state));
}

}  // namespace
}  // namespace shoal::outer_opt
