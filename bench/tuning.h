// Which learning rate an arm of a study trains at: its own best, looked for by factors of two.
#pragma once

#include <cstdint>
#include <functional>

namespace shoal::bench {

// Rates are chosen by the loss of this seed, which no table reports: the best of several noisy
// losses looks better than it is.
inline constexpr std::uint64_t kTuningSeed = 1001;

// By halves and doubles from `first`, as long as it gets better and stays within 64 times: the best
// rate, by `loss_at`. Every rate is tried once.
double tune(double first, const std::function<double(double)>& loss_at);

}  // namespace shoal::bench
