// Rounds in groups: who averages with whom, and the outer step of a replica whose anchor is its
// own. A lost member costs its group the round and nobody else. Groups are pure functions of the
// members that the round was frozen with (indices in the order of the replica ids), the job's seed
// and the round.
//
// moshpit (Ryabinin et al. 2021): the members fill a grid of side ceil(sqrt n) row by row; rounds
// of even number average along its rows, the others along its columns. Nothing lost and n a square:
// after two rounds everybody has the mean of all.
//
// gossip (NoLoCo, 2506.10911): random pairs; of an odd number one stays alone. The differences
// between replicas halve in the mean of many rounds.
//
// What the digests promise: the members of a group vote for the same average. Anchors are equal
// nowhere: each replica has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "job/job_spec.h"

namespace shoal::outer_opt {

using Group = std::vector<std::size_t>;  // ascending; one alone keeps what it has

// Every member is in exactly one group; groups by their first member.
std::vector<Group> moshpit_groups(std::size_t members, RoundNumber round);
std::vector<Group> gossip_groups(std::size_t members, std::uint64_t seed, RoundNumber round);

// The groups of this round for a job that averages in groups.
std::vector<Group> groups_of(const JobSpec& spec, std::size_t members, RoundNumber round);

bool averages_in_groups(const SyncSpec& sync);  // topology moshpit or gossip

// The outer step in a group, NoLoCo's equation 1 (a pseudo-gradient is anchor minus local):
//
//   delta_i <- momentum * delta_i - lr * mean_j(D_j) - pull * (anchor_i - mean_j(anchor_j))
//   anchor_i <- anchor_i + delta_i
//
// It is linear in what members tell each other, so one vector from each is enough,
//
//   x_j = pull * anchor_j - lr * D_j
//   delta_i <- momentum * delta_i - pull * anchor_i + mean_j(x_j)
//
// with equal weights among those that count. x is as large as the anchor and the differences that
// matter are small, so it travels in fp32. Everything is fp32, each operation rounded once.
//
// Clip factors are applied by who receives: a member that could scale its own vector down could
// leave it as it is. The owner of a part knows no D_j, only x_j, so it pulls x_j towards the one
// vector that it has of its own, r = pull * its anchor, and averages r + clip_j * (x_j - r). That
// limits the distance of x_j from the owner's anchor as a whole, the part of it that comes from
// different anchors, too; without a clipped member it changes no bit.
//
// One group that stays together holds while 0 < pull < 2 + 2 momentum. Groups that change need less
// momentum: with pull = 1 random pairs of 4 to 32 members come together up to about 0.7 and drift
// apart at 0.8, a grid comes together at 0.9.
struct GroupStep {
  double lr = 0.7, momentum = 0.5, pull = 1;
};
GroupStep group_step_for(const SyncSpec& sync, double outer_lr);

// Makes x of a pseudo-gradient, in place.
void make_group_input(const GroupStep& options, std::span<const float> anchor,
                      std::span<float> pseudo_gradient);
// The step with the mean of x. The spans have the same length and do not overlap.
void group_step(const GroupStep& options, std::span<const float> mean, std::span<float> delta,
                std::span<float> anchor);

}  // namespace shoal::outer_opt
