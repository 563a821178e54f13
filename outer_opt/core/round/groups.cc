#include "outer_opt/core/round/groups.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/prng.h"

namespace shoal::outer_opt {
namespace {

// The least number whose square is not below n, without a rounded root.
std::size_t side_of(std::size_t n) {
  std::size_t side = 1;
  while (side * side < n) ++side;
  return side;
}

}  // namespace

std::vector<Group> moshpit_groups(std::size_t members, RoundNumber round) {
  const std::size_t side = side_of(members);
  const bool rows = round % 2 == 0;
  std::vector<Group> groups(rows ? (members + side - 1) / side : std::min(side, members));
  for (std::size_t i = 0; i < members; ++i) groups[rows ? i / side : i % side].push_back(i);
  return groups;
}

std::vector<Group> gossip_groups(std::size_t members, std::uint64_t seed, RoundNumber round) {
  std::vector<std::size_t> order(members);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Prng prng(mix_seed(seed, 0x90551 + static_cast<std::uint64_t>(round)));
  prng.shuffle(order);
  std::vector<Group> groups;
  for (std::size_t i = 0; i < members; i += 2) {
    Group& group = groups.emplace_back(Group{order[i]});
    if (i + 1 < members) group.push_back(order[i + 1]);
    std::sort(group.begin(), group.end());
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

std::vector<Group> groups_of(const JobSpec& spec, std::size_t members, RoundNumber round) {
  if (spec.sync.topology == Topology::kMoshpit) return moshpit_groups(members, round);
  SHOAL_CHECK(spec.sync.topology == Topology::kGossip, "the job has no groups");
  return gossip_groups(members, spec.train.seed, round);
}

bool averages_in_groups(const SyncSpec& sync) {
  return sync.topology == Topology::kMoshpit || sync.topology == Topology::kGossip;
}

GroupStep group_step_for(const SyncSpec& sync, double outer_lr) {
  return {outer_lr, sync.outer.momentum, 1};
}

void make_group_input(const GroupStep& options, std::span<const float> anchor,
                      std::span<float> pseudo_gradient) {
  SHOAL_CHECK(pseudo_gradient.size() == anchor.size());
  const auto pull = static_cast<float>(options.pull);
  const auto scale = static_cast<float>(options.lr);
  for (std::size_t i = 0; i < anchor.size(); ++i) {
    const float kept = pull * anchor[i];
    const float step = scale * pseudo_gradient[i];
    pseudo_gradient[i] = kept - step;
  }
}

void group_step(const GroupStep& options, std::span<const float> mean, std::span<float> delta,
                std::span<float> anchor) {
  SHOAL_CHECK(mean.size() == anchor.size() && delta.size() == anchor.size());
  const auto momentum = static_cast<float>(options.momentum);
  const auto pull = static_cast<float>(options.pull);
  for (std::size_t i = 0; i < anchor.size(); ++i) {
    const float pulled = pull * anchor[i];
    const float towards = mean[i] - pulled;
    const float kept = momentum * delta[i];
    delta[i] = kept + towards;
    anchor[i] = anchor[i] + delta[i];
  }
}

}  // namespace shoal::outer_opt
