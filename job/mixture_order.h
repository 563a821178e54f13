// Which dataset of a mixture sequence i of a job is of, and which of that dataset's sequences it
// is. The order is cut into blocks of kBlock sequences, in which each dataset has its share to
// within one sequence, in a shuffled order. The shares of all blocks until any place add up to the
// weights to within one sequence for each dataset, too.
//
// A function of the weights and the seed. A dataset's own sequences are taken in their order, so
// what each needs of its chunks stays little. Pure; one thread at a time, since it keeps the block
// in use.
#pragma once

#include <cstdint>
#include <vector>

namespace shoal {

struct MixturePlace {
  std::int64_t dataset = 0;   // index of the weights
  std::int64_t sequence = 0;  // of that dataset
  bool operator==(const MixturePlace&) const = default;
};

class MixtureOrder {
 public:
  static constexpr std::int64_t kBlock = 65'536;
  // The least share of a dataset, so that a block has some of each.
  static constexpr double kShareMin = 0.001;

  // `weights`: above 0, each at least kShareMin of their sum; at most 255.
  MixtureOrder(std::vector<double> weights, std::uint64_t seed);

  MixturePlace place_of(std::int64_t sequence) const;  // >= 0

  double share(std::int64_t dataset) const;

 private:
  struct Block {
    std::int64_t number = -1;
    std::vector<std::uint8_t> dataset;  // of each sequence
    std::vector<std::uint32_t> rank;    // before it, of the same dataset, in the block
  };
  // How many sequences of the first `blocks` blocks are of the datasets before `dataset`.
  std::int64_t before(std::int64_t dataset, std::int64_t blocks) const;
  std::int64_t of_dataset(std::int64_t dataset, std::int64_t blocks) const {
    return before(dataset + 1, blocks) - before(dataset, blocks);
  }
  const Block& block_of(std::int64_t number) const;

  std::vector<std::int64_t> bounds_;  // of the shares, in units of kUnit, the first 0
  std::uint64_t seed_;
  mutable Block block_;
};

}  // namespace shoal
