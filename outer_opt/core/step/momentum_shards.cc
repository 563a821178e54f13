// See momentum_shards.h. Ranges are few, two per member, so lists of them are walked.
#include "outer_opt/core/step/momentum_shards.h"

#include <algorithm>

#include "base/check.h"
#include "outer_opt/core/round/plan_refusal.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

std::int64_t end_of(const ValueRange& range) { return range.first + range.count; }

ValueRange range_of(const MomentumHolder& holder) { return {holder.first, holder.count}; }

ValueRange common(const ValueRange& a, const ValueRange& b) {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max<std::int64_t>(0, std::min(end_of(a), end_of(b)) - first)};
}

// `ranges` without the values in `gone`.
std::vector<ValueRange> without(const std::vector<ValueRange>& ranges, const ValueRange& gone) {
  std::vector<ValueRange> left;
  for (const ValueRange& range : ranges) {
    const ValueRange cut = common(range, gone);
    if (cut.count == 0) {
      left.push_back(range);
      continue;
    }
    if (cut.first > range.first) left.push_back({range.first, cut.first - range.first});
    if (end_of(cut) < end_of(range)) left.push_back({end_of(cut), end_of(range) - end_of(cut)});
  }
  return left;
}

// The giver of each piece of `ranges`: `self` if it holds the piece, else the first holder.
std::vector<MomentumHolder> givers(std::vector<ValueRange> ranges, ReplicaId self,
                                   const std::vector<MomentumHolder>& holders) {
  std::vector<MomentumHolder> pieces;
  for (const bool own : {true, false}) {
    for (const MomentumHolder& holder : holders) {
      if ((holder.replica == self) != own) continue;
      for (const ValueRange& range : ranges) {
        const ValueRange piece = common(range, range_of(holder));
        if (piece.count == 0) continue;
        pieces.push_back({holder.replica, holder.address, piece.first, piece.count});
      }
      ranges = without(ranges, range_of(holder));
    }
  }
  return pieces;
}

}  // namespace

void apply_step(std::span<const float> step, std::span<float> anchor) {
  SHOAL_CHECK(anchor.size() == step.size());
  const float* __restrict u = step.data();
  float* __restrict theta = anchor.data();
  for (std::size_t i = 0; i < step.size(); ++i) theta[i] = theta[i] - u[i];
}

MomentumShards::MomentumShards(std::vector<ValueRange> ranges) : ranges_(std::move(ranges)) {
  for (const ValueRange& range : ranges_) {
    values_.emplace_back(static_cast<std::size_t>(range.count));
  }
}

std::size_t MomentumShards::index_of(const ValueRange& range) const {
  const auto it = std::find_if(ranges_.begin(), ranges_.end(), [&](const ValueRange& mine) {
    return range.first >= mine.first && end_of(range) <= end_of(mine);
  });
  return static_cast<std::size_t>(it - ranges_.begin());
}

bool MomentumShards::holds(const ValueRange& range) const {
  return range.count >= 0 && index_of(range) < ranges_.size();
}

std::span<const float> MomentumShards::at(const ValueRange& range) const {
  const std::size_t i = index_of(range);
  SHOAL_CHECK(i < ranges_.size(), "momentum that is not held here");
  return std::span(values_[i])
      .subspan(static_cast<std::size_t>(range.first - ranges_[i].first),
               static_cast<std::size_t>(range.count));
}

std::span<float> MomentumShards::at(const ValueRange& range) {
  const std::size_t i = index_of(range);
  SHOAL_CHECK(i < ranges_.size(), "momentum that is not held here");
  return std::span(values_[i])
      .subspan(static_cast<std::size_t>(range.first - ranges_[i].first),
               static_cast<std::size_t>(range.count));
}

void MomentumShards::follow(const OwnerTerms& outer, const ValueRange& run,
                            std::span<const float> step) {
  for (const ValueRange& range : ranges_) {
    const ValueRange held = common(range, run);
    if (held.count == 0) continue;
    follow_step(outer,
                step.subspan(static_cast<std::size_t>(held.first - run.first),
                             static_cast<std::size_t>(held.count)),
                at(held));
  }
}

std::vector<ValueRange> kept_ranges(std::span<const ReduceMember> members, ReplicaId self) {
  std::vector<const ReduceMember*> owners;
  for (const ReduceMember& member : members) {
    if (member.part_count > 0) owners.push_back(&member);
  }
  const auto mine = std::find_if(owners.begin(), owners.end(),
                                 [&](const ReduceMember* owner) { return owner->replica == self; });
  if (mine == owners.end()) return {};
  const ReduceMember* before = mine == owners.begin() ? owners.back() : *(mine - 1);
  std::vector<ValueRange> kept{{(*mine)->part_first, (*mine)->part_count}};
  if (before != *mine) kept.push_back({before->part_first, before->part_count});
  std::sort(kept.begin(), kept.end(),
            [](const ValueRange& a, const ValueRange& b) { return a.first < b.first; });
  return kept;
}

Result<Restaged> restage(const std::vector<ValueRange>& ranges, ReplicaId self,
                         const std::vector<MomentumHolder>& holders, const MomentumShards& held) {
  Restaged out{MomentumShards(ranges), {}};
  for (MomentumHolder& piece : givers(ranges, self, holders)) {
    if (piece.replica != self) {
      out.missing.push_back(std::move(piece));
      continue;
    }
    if (!held.holds(range_of(piece))) {
      return refused_plan("owner_step.holders",
                          to_string(self) + " is to hold momentum that it does not");
    }
    const auto from = held.at(range_of(piece));
    std::copy(from.begin(), from.end(), out.shards.at(range_of(piece)).begin());
  }
  return out;
}

bool stays(const std::vector<ValueRange>& ranges, ReplicaId self,
           const std::vector<MomentumHolder>& holders, const MomentumShards& held) {
  if (held.ranges() != ranges) return false;
  return std::all_of(ranges.begin(), ranges.end(), [&](const ValueRange& range) {
    return std::any_of(holders.begin(), holders.end(), [&](const MomentumHolder& holder) {
      return holder.replica == self && range_of(holder) == range;
    });
  });
}

std::int64_t most_missing(const ReducePlan& plan) {
  std::int64_t most = 0;
  if (!plan.owner_step) return most;
  for (const ReduceMember& member : plan.members) {
    std::int64_t missing = 0;
    const auto ranges = kept_ranges(plan.members, member.replica);
    for (const auto& piece : givers(ranges, member.replica, plan.owner_step->holders)) {
      if (piece.replica != member.replica) missing += piece.count;
    }
    most = std::max(most, missing);
  }
  return most;
}

std::int64_t values_without_holder(std::int64_t value_count,
                                   const std::vector<MomentumHolder>& holders) {
  std::vector<ValueRange> left{{0, value_count}};
  for (const MomentumHolder& holder : holders) left = without(left, range_of(holder));
  return outer_opt::value_count(left);
}

}  // namespace shoal::outer_opt
