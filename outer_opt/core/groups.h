// Rounds in groups: who averages with whom, and the outer step of a replica whose anchor is its
// own. A lost member costs its group the round and nobody else. Groups are pure functions of the
// committed membership (indices in the order of the replica ids), the job's seed and the round.
//
// moshpit (Ryabinin et al. 2021): the members fill a grid of side ceil(sqrt n) row by row; rounds
// of even number average along its rows, the others along its columns. Nothing lost and n a square:
// after two rounds everybody has the mean of all.
//
// gossip (NoLoCo, 2506.10911): random pairs; of an odd number one stays alone. The differences
// between replicas halve in the mean of many rounds.
//
// What the digests promise: the members of a group vote for the same averages, of pseudo-gradients
// and of anchors. Anchors are equal nowhere: each replica has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace shoal::outer_opt {

using Group = std::vector<std::size_t>;  // ascending; one alone keeps what it has

// Every member is in exactly one group; groups by their first member.
std::vector<Group> moshpit_groups(std::size_t members, RoundNumber round);
std::vector<Group> gossip_groups(std::size_t members, std::uint64_t seed, RoundNumber round);

// The outer step in a group, NoLoCo's equation 1:
//
//   delta <- momentum * delta - lr * mean_pseudo_gradient - pull * (anchor - mean_anchor)
//   anchor <- anchor + delta
//
// in fp32, each operation rounded once. It holds a group together while 0 < pull < 2 + 2 momentum;
// pull = 1 without momentum adopts the mean.
struct GroupStep {
  double lr = 0.7, momentum = 0.5, pull = 1;
};
// The four spans have the same length and do not overlap. Pure and thread-safe.
void group_step(const GroupStep& options, std::span<const float> mean_pseudo_gradient,
                std::span<const float> mean_anchor, std::span<float> delta,
                std::span<float> anchor);

}  // namespace shoal::outer_opt
