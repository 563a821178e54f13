// See outer_state.h.
#include "replica/core/outer_state.h"

#include <span>

#include "base/byte_digester.h"

namespace shoal::replica {
namespace {

// The bits of earlier versions: shared moments count with their lengths, other vectors without.
Digest digest_of_vectors(const OuterState& state) {
  if (state.vectors.empty()) return Digest();
  Digester with_lengths;
  ByteDigester bytes;
  for (const NamedVector& vector : state.vectors) {
    const auto values = std::as_bytes(std::span<const float>(vector.values));
    with_lengths.add(values);
    bytes.add(values);
  }
  return state.shares_adam() ? with_lengths.finish() : bytes.finish();
}

}  // namespace

StateDigests digests_of(const OuterState& state) {
  return {digest_of(std::span<const float>(state.anchor)), digest_of_vectors(state)};
}

}  // namespace shoal::replica
