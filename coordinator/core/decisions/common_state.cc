#include "coordinator/core/decisions/common_state.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/flat_map.h"

namespace shoal::coordinator {
namespace {

using Held = std::pair<Digest, Digest>;  // anchor, momentum

struct Side {
  int claims = 0;
  bool proved = false;
};

Held held_by(const StateClaim& claim) { return {claim.anchor, claim.momentum}; }

}  // namespace

StateDecision decide_state(const std::vector<StateClaim>& claims) {
  SHOAL_CHECK(!claims.empty());
  FlatMap<Held, Side> sides;
  int most = 0;
  for (const StateClaim& claim : claims) {
    Side& side = sides[held_by(claim)];
    side.proved = side.proved || claim.proved;
    most = std::max(most, ++side.claims);
  }
  std::vector<Held> first, proved;  // of the largest sides
  for (const auto& [held, side] : sides) {
    if (side.claims < most) continue;
    first.push_back(held);
    if (side.proved) proved.push_back(held);
  }
  StateDecision decision;
  const std::vector<Held>& left = first.size() == 1 ? first : proved;
  decision.verdict = sides.size() == 1   ? StateVerdict::kAgreed
                     : first.size() == 1 ? StateVerdict::kMajority
                     : left.size() == 1  ? StateVerdict::kProved
                                         : StateVerdict::kUndecided;
  if (left.size() == 1) std::tie(decision.anchor, decision.momentum) = left.front();
  for (const StateClaim& claim : claims) {
    if (left.size() != 1 || held_by(claim) != left.front()) decision.odd.push_back(claim.replica);
  }
  return decision;
}

}  // namespace shoal::coordinator
