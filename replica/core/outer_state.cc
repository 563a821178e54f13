// See outer_state.h.
#include "replica/core/outer_state.h"

#include <span>

namespace shoal::replica {
namespace {

Digest momentum_digest(const OuterState& state) {
  if (!state.shares_adam()) {
    return state.momentum.empty() ? Digest() : digest_of(std::span<const float>(state.momentum));
  }
  Digester d;
  d.add(std::as_bytes(std::span(state.adam_m))).add(std::as_bytes(std::span(state.adam_v)));
  return d.finish();
}

}  // namespace

StateDigests digests_of(const OuterState& state) {
  return {digest_of(std::span<const float>(state.anchor)), momentum_digest(state)};
}

}  // namespace shoal::replica
