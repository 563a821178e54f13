#include "outer_opt/core/round/audit.h"

#include <algorithm>
#include <iterator>

#include "base/prng.h"

namespace shoal::outer_opt {
namespace {

std::vector<const ReduceMember*> owners_of(const ReducePlan& plan) {
  std::vector<const ReduceMember*> owners;
  for (const ReduceMember& member : plan.members) {
    if (member.part_count > 0) owners.push_back(&member);
  }
  return owners;
}

bool has_owners(Topology topology) {
  return topology == Topology::kButterfly || topology == Topology::kParamServer;
}

// The order of parts in the plan of the audit: by second owner, then by position.
void put_in_order(const ReducePlan& plan, std::vector<AuditedRange>& ranges) {
  const auto place = [&](ReplicaId replica) {
    return std::ranges::find(plan.members, replica, &ReduceMember::replica);
  };
  std::ranges::stable_sort(ranges, [&](const AuditedRange& a, const AuditedRange& b) {
    return a.second == b.second ? a.first < b.first : place(a.second) < place(b.second);
  });
}

// Draws frames of one owner, each with the probability `share` but at least one; the second owner
// stays open.
std::vector<AuditedRange> draw_frames(const ReducePlan& plan, const ReduceMember& owner,
                                      double share, Prng& prng) {
  std::vector<AuditedRange> frames, drawn;
  for (std::int64_t at = 0; at < owner.part_count; at += plan.frame_values) {
    frames.push_back({owner.replica,
                      {},
                      owner.part_first + at,
                      std::min(plan.frame_values, owner.part_count - at)});
  }
  std::ranges::copy_if(frames, std::back_inserter(drawn),
                       [&](const AuditedRange&) { return prng.chance(share); });
  if (drawn.empty()) drawn.push_back(frames[prng.below(frames.size())]);
  return drawn;
}

}  // namespace

std::vector<AuditedRange> draw_audit(const ReducePlan& plan, double share, std::uint64_t seed) {
  const std::vector<const ReduceMember*> owners = owners_of(plan);
  if (owners.size() < kAuditOwnersMin || !has_owners(plan.topology) || share <= 0) return {};
  Prng prng(seed);
  const std::size_t turn = 1 + prng.below(owners.size() - 1);
  std::vector<AuditedRange> ranges;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const ReplicaId second = owners[(i + turn) % owners.size()]->replica;
    for (const AuditedRange& frame : draw_frames(plan, *owners[i], share, prng)) {
      ranges.push_back(frame);
      ranges.back().second = second;
    }
  }
  if (ranges.size() > kAuditedMax) ranges.resize(kAuditedMax);
  put_in_order(plan, ranges);
  return ranges;
}

std::vector<AuditedRange> ask_third(const ReducePlan& plan,
                                    const std::vector<AuditedRange>& audited, ReplicaId owner,
                                    std::uint64_t seed) {
  std::vector<AuditedRange> ranges;
  std::ranges::copy_if(audited, std::back_inserter(ranges),
                       [&](const AuditedRange& range) { return range.owner == owner; });
  if (ranges.empty()) return {};
  std::vector<const ReduceMember*> others = owners_of(plan);
  std::erase_if(others, [&](const ReduceMember* member) {
    return member->replica == owner || member->replica == ranges.front().second;
  });
  if (others.empty()) return {};
  const ReplicaId third = others[Prng(seed).below(others.size())]->replica;
  for (AuditedRange& range : ranges) range.second = third;
  return ranges;
}

ReducePlan audit_plan(ReducePlan plan, const std::vector<AuditedRange>& audited) {
  plan.audited = audited;
  std::int64_t next = 0;
  for (ReduceMember& member : plan.members) {
    member.part_first = next;
    for (const AuditedRange& range : audited) {
      if (range.second == member.replica) next += range.count;
    }
    member.part_count = next - member.part_first;
  }
  plan.value_count = next;
  return plan;
}

}  // namespace shoal::outer_opt
