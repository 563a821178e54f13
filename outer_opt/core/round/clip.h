// How far contributions of one stage are scaled down before they are averaged: a norm above the
// median becomes the median, so that one member cannot outweigh the others. It needs one number per
// member and costs nothing when all are honest; it bounds an attacker, it does not find him.
//
// Members that trained longer have larger pseudo-gradients, and honestly so. Norms grew like
// steps^0.7 where it was measured, but not in every job and at every time: norms_at_equal_work()
// fits the power to the norms of the round and takes it out.
#pragma once

#include <span>
#include <vector>

namespace shoal::outer_opt {

// The list must not be empty.
double median(std::vector<double> values);
double median_of_sorted(std::span<const double> values);

// The norms that show how large a norm should be: those above 0. A round without any step left, as
// the last short one of an overlapped job, is no measure for the others.
std::vector<double> telling_norms(std::span<const double> norms);

// A factor in (0, 1] for each norm, median / norm where that is below 1; of the telling ones.
std::vector<double> clip_factors(const std::vector<double>& norms);

// Norms that can be compared are those of equal work. Between members of `little` and `much` work a
// norm grows by (much / little)^p. Work that follows a random walk gives 1/2, steps that all go the
// same way give 1; a fit beyond them is noise or an attack.
inline constexpr double kGrowthMin = 0.5, kGrowthMax = 1;

// The p of these members: the slope from the medians of those with little work to the medians of
// those with much, in logarithms, where the two are divided at the middle of the range (Tukey's
// resistant line with two groups), so that no single member turns it where there are more. work:
// inner steps behind each norm. kGrowthMin when all work is equal: then it decides nothing.
double growth_of_norms(std::span<const double> norms, std::span<const double> work);

// norms[i] / work[i]^p. Work that is not above 0 counts as 1.
std::vector<double> norms_at_equal_work(std::span<const double> norms,
                                        std::span<const double> work);

}  // namespace shoal::outer_opt
