// See sampling.h.
#include "replica/runtime/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace shoal::replica {

std::int64_t sample_token(std::span<const float> logits, double temperature, std::int64_t top_k,
                          Prng& prng) {
  SHOAL_CHECK(!logits.empty());
  const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  if (temperature <= 0) return likeliest;
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto kept =
      top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  order.resize(kept);
  std::vector<double> weights;
  const double top = logits[static_cast<std::size_t>(likeliest)];
  for (const std::size_t token : order)
    weights.push_back(std::exp((logits[token] - top) / temperature));
  double left = prng.unit() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<std::int64_t>(order[i]);
  }
  return static_cast<std::int64_t>(order.back());
}

}  // namespace shoal::replica
