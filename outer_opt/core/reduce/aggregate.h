// Averages that a minority of wrong contributions cannot drag away, for sync.aggregator. The owner
// of a butterfly's part holds all contributions to a chunk and replaces the weighted mean by one of
//
//   trimmed_mean   per value: the k smallest and the k largest are dropped, k = max(1, (n-1)/4) of
//                  n >= 3 contributions; of the rest the weighted mean (Yin et al. 2018)
//   centered_clip  from v = the median per value, a few times:
//                  v += sum_i w_i (x_i - v) min(1, t / |x_i - v|) / sum_i w_i
//                  with t = the median distance from the first v (Karimireddy et al. 2021)
//
// Distances are taken per chunk, by its owner: those of whole vectors from a center are known to
// nobody before the exchange, and the norms that are reported at the freeze are from zero and told
// by the members themselves. Only the owner computes, so nobody has to arrive at the same numbers.
//
// Pure and thread-safe; sums in double, in the order given.
#pragma once

#include <span>

#include "job/job_spec.h"

namespace shoal::outer_opt {

struct WeightedValues {
  std::span<const float> values;
  double weight = 0;  // above 0
};

// All have the length of `out`. Without members: zeros; with two or fewer: the weighted mean.
void aggregate(Aggregator kind, std::span<const WeightedValues> members, std::span<float> out);

}  // namespace shoal::outer_opt
