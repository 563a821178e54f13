#include "outer_opt/core/groups.h"

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

void group_step(const GroupStep& options, std::span<const float> mean_pseudo_gradient,
                std::span<const float> mean_anchor, std::span<float> delta,
                std::span<float> anchor) {
  SHOAL_CHECK(mean_pseudo_gradient.size() == anchor.size());
  SHOAL_CHECK(mean_anchor.size() == anchor.size() && delta.size() == anchor.size());
  const auto lr = static_cast<float>(options.lr);
  const auto momentum = static_cast<float>(options.momentum);
  const auto pull = static_cast<float>(options.pull);
  for (std::size_t i = 0; i < anchor.size(); ++i) {
    const float kept = momentum * delta[i];
    const float step = lr * mean_pseudo_gradient[i];
    const float apart = anchor[i] - mean_anchor[i];
    const float pulled = pull * apart;
    const float moved = kept - step;
    delta[i] = moved - pulled;
    anchor[i] = anchor[i] + delta[i];
  }
}

}  // namespace shoal::outer_opt
