#include "job/mixture_order.h"

#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/prng.h"

namespace shoal {
namespace {

// Shares are whole numbers of 1 / kUnit. A number of sequences up to 2^38 times kUnit fits.
constexpr std::int64_t kUnit = std::int64_t{1} << 24;
constexpr std::int64_t kBlocksMax = std::int64_t{1} << 22;
constexpr std::uint64_t kSalt = 0x6d697874757265ULL;  // "mixture"

}  // namespace

MixtureOrder::MixtureOrder(std::vector<double> weights, std::uint64_t seed) : seed_(seed) {
  SHOAL_CHECK(!weights.empty() && weights.size() <= 255);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double part = 0;
  for (const double weight : weights) {
    bounds_.push_back(
        static_cast<std::int64_t>(std::llround(part / sum * static_cast<double>(kUnit))));
    part += weight;
  }
  bounds_.push_back(kUnit);
}

double MixtureOrder::share(std::int64_t dataset) const {
  const auto i = static_cast<std::size_t>(dataset);
  return static_cast<double>(bounds_[i + 1] - bounds_[i]) / static_cast<double>(kUnit);
}

std::int64_t MixtureOrder::before(std::int64_t dataset, std::int64_t blocks) const {
  SHOAL_CHECK(blocks <= kBlocksMax, "a job of so many sequences");
  const std::int64_t scaled = blocks * kBlock * bounds_[static_cast<std::size_t>(dataset)];
  return (scaled + kUnit / 2) / kUnit;
}

const MixtureOrder::Block& MixtureOrder::block_of(std::int64_t number) const {
  if (block_.number == number) return block_;
  block_ = {number, std::vector<std::uint8_t>(kBlock), std::vector<std::uint32_t>(kBlock)};
  const auto datasets = static_cast<std::int64_t>(bounds_.size()) - 1;
  const Permutation permutation(
      kBlock, mix_seed(mix_seed(seed_, kSalt), static_cast<std::uint64_t>(number)));
  std::uint64_t slot = 0;
  for (std::int64_t dataset = 0; dataset < datasets; ++dataset) {
    const std::int64_t count = of_dataset(dataset, number + 1) - of_dataset(dataset, number);
    for (std::int64_t i = 0; i < count && slot < kBlock; ++i) {
      block_.dataset[permutation(slot++)] = static_cast<std::uint8_t>(dataset);
    }
  }
  SHOAL_CHECK(slot == kBlock, "the shares of a block do not fill it");
  std::vector<std::uint32_t> seen(static_cast<std::size_t>(datasets), 0);
  for (std::size_t i = 0; i < kBlock; ++i) block_.rank[i] = seen[block_.dataset[i]]++;
  return block_;
}

MixturePlace MixtureOrder::place_of(std::int64_t sequence) const {
  SHOAL_CHECK(sequence >= 0);
  const Block& block = block_of(sequence / kBlock);
  const auto at = static_cast<std::size_t>(sequence % kBlock);
  const std::int64_t dataset = block.dataset[at];
  return {dataset, of_dataset(dataset, block.number) + block.rank[at]};
}

}  // namespace shoal
