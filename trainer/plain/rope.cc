#include "trainer/plain/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shoal::trainer {
namespace {

// Llama 3.1: long waves are those of the longer context, short ones stay, and between the two
// bounds the share of the unscaled frequency grows with the number of waves in the old context.
double llama3_frequency(const RopeSpec& rope, double frequency) {
  const double waves =
      static_cast<double>(rope.original_context) * frequency / (2 * std::numbers::pi);
  const double blend =
      (waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  const double kept = std::clamp(blend, 0.0, 1.0);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

double scaled(const RopeSpec& rope, double frequency) {
  switch (rope.scaling) {
    case RopeScaling::kNone:
      return frequency;
    case RopeScaling::kLinear:
      return frequency / rope.factor;
    case RopeScaling::kLlama3:
      return llama3_frequency(rope, frequency);
  }
  return frequency;  // unreachable: every word has its case
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t head_dim) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const double power = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
    frequencies.push_back(scaled(rope, std::pow(rope.theta, power)));
  }
  return frequencies;
}

}  // namespace shoal::trainer
