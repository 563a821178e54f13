// Averages that are made a second time, to find an owner that averages falsely: a random share of
// the frames of a reduce, drawn when every member has voted for its result, is reduced again with
// another owner for each. An average does not depend on who makes it (ReducePlan::codes_own), so
// the two must be the same bits; all members have both and compare them.
//
// Nobody can know beforehand which frames are drawn, because the draw comes after the owners have
// told everybody their averages. Whoever differs from the first time is not known either: of two a
// third decides (coordinator/core/decisions/audit.h).
//
// Frames of one owner have one second owner, that so many places after it, so that a short last
// frame is the last of a part again and every frame is encoded in the same blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "outer_opt/core/round/reduce_plan.h"

namespace shoal::outer_opt {

// The owner of a part said that a member sent more than it reported, and no other owner's word was
// needed for it, or enough.
struct Accusation {
  ReplicaId owner, member;
  bool operator==(const Accusation&) const = default;
};
constexpr auto fields_of(Of<Accusation>) {
  using T = Accusation;
  return fields<&T::owner, &T::member>();
}

// Below that many owners of parts nobody could decide between two.
inline constexpr std::size_t kAuditOwnersMin = 3;

// Draws each frame of the plan's average with the probability `share`, in the order of
// audit_plan(). Empty if the plan has too few owners or is not a butterfly.
std::vector<AuditedRange> draw_audit(const ReducePlan& plan, double share, std::uint64_t seed);

// The frames of one owner again, by a third; none where nobody is left.
std::vector<AuditedRange> ask_third(const ReducePlan& plan,
                                    const std::vector<AuditedRange>& audited, ReplicaId owner,
                                    std::uint64_t seed);

// The reduce of these ranges, by the members, weights and clip factors of `plan`.
ReducePlan audit_plan(ReducePlan plan, const std::vector<AuditedRange>& audited);

}  // namespace shoal::outer_opt
