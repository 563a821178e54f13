// How far contributions of one stage are scaled down before they are averaged: a norm above the
// median becomes the median, so that one member cannot outweigh the others. It needs one number per
// member and costs nothing when all are honest; it bounds an attacker, it does not find him.
#pragma once

#include <span>
#include <vector>

namespace shoal::outer_opt {

// Not of nothing.
double median(std::vector<double> values);
double median_of_sorted(std::span<const double> values);

// A factor in (0, 1] for each norm, median / norm where that is below 1.
std::vector<double> clip_factors(const std::vector<double>& norms);

}  // namespace shoal::outer_opt
