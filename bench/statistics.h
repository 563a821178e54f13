// What a study may say of runs that differ in their seed alone: a mean, and how far it may be off.
#pragma once

#include <span>
#include <vector>

namespace shoal::bench {

// The mean of a normal population lies within mean ± half in 95 of 100 such samples (Student's t).
struct Interval {
  double mean = 0;
  double half = 0;  // infinite with one value
  double low() const { return mean - half; }
  double high() const { return mean + half; }
};
Interval interval_of(std::span<const double> values);  // one value or more

// In per cent, own[i] above other[i], pair by pair: what both share with their seed falls out.
// As many as the shorter has, one or more.
Interval excess_of(std::span<const double> own, std::span<const double> other);

// How a target of at most `limit` fares: met by the whole interval, missed by the mean, or met by
// the mean alone.
enum class Verdict { kMet, kUndecided, kMissed };
Verdict verdict_of(const Interval& excess, double limit);
const char* to_string(Verdict verdict);  // "met", "met by the mean, not by the interval", "missed"

}  // namespace shoal::bench
