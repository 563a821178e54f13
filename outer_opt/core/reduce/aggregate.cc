#include "outer_opt/core/reduce/aggregate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "outer_opt/core/round/clip.h"

namespace shoal::outer_opt {
namespace {

constexpr int kClipSteps = 10;         // at most
constexpr double kClipSettled = 1e-4;  // a step below this share of the distance t is the last

using Members = std::span<const WeightedValues>;

// The weighted mean of what is left without the `trim` smallest and largest.
void trimmed_mean(Members members, std::size_t trim, std::span<float> out) {
  std::vector<std::pair<double, double>> column(members.size());  // value, weight
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t m = 0; m < members.size(); ++m) {
      column[m] = {static_cast<double>(members[m].values[i]), members[m].weight};
    }
    if (trim > 0) std::sort(column.begin(), column.end());
    double sum = 0, weight = 0;
    for (std::size_t m = trim; m < column.size() - trim; ++m) {
      sum += column[m].first * column[m].second;
      weight += column[m].second;
    }
    out[i] = static_cast<float>(sum / weight);
  }
}

std::vector<double> median_per_value(Members members, std::size_t count) {
  std::vector<double> medians(count), column(members.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t m = 0; m < members.size(); ++m) {
      column[m] = static_cast<double>(members[m].values[i]);
    }
    std::sort(column.begin(), column.end());
    medians[i] = median_of_sorted(column);
  }
  return medians;
}

double distance(std::span<const float> values, const std::vector<double>& from) {
  double sum = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double d = static_cast<double>(values[i]) - from[i];
    sum += d * d;
  }
  return std::sqrt(sum);
}

std::vector<double> distances(Members members, const std::vector<double>& from) {
  std::vector<double> all;
  for (const WeightedValues& member : members) all.push_back(distance(member.values, from));
  return all;
}

// One step; returns its length.
double clip_step(Members members, double limit, std::vector<double>& center) {
  double weight = 0, moved = 0;
  std::vector<double> step(center.size(), 0.0);
  const std::vector<double> away = distances(members, center);
  for (std::size_t m = 0; m < members.size(); ++m) {
    const double factor = members[m].weight * (away[m] > limit ? limit / away[m] : 1.0);
    weight += members[m].weight;
    for (std::size_t i = 0; i < step.size(); ++i) {
      step[i] += factor * (static_cast<double>(members[m].values[i]) - center[i]);
    }
  }
  for (std::size_t i = 0; i < step.size(); ++i) {
    const double move = step[i] / weight;
    center[i] += move;
    moved += move * move;
  }
  return std::sqrt(moved);
}

void centered_clip(Members members, std::span<float> out) {
  std::vector<double> center = median_per_value(members, out.size());
  const double limit = median(distances(members, center));
  for (int step = 0; step < kClipSteps; ++step) {
    if (clip_step(members, limit, center) <= kClipSettled * limit) break;
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(center[i]);
}

}  // namespace

void aggregate(Aggregator kind, Members members, std::span<float> out) {
  const std::size_t n = members.size();
  if (n == 0) return std::fill(out.begin(), out.end(), 0.0f);
  if (n < 3 || kind == Aggregator::kMean) return trimmed_mean(members, 0, out);
  if (kind == Aggregator::kCenteredClip) return centered_clip(members, out);
  trimmed_mean(members, std::max<std::size_t>(1, (n - 1) / 4), out);
}

}  // namespace shoal::outer_opt
