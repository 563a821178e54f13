#include "coordinator/core/decisions/stage_rates.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr double kFlopsPerGflop = 1e9;

std::int64_t on_device_of(const std::vector<PlacedReplica>& live, const PlacedReplica& replica) {
  return std::ranges::count_if(live, [&](const PlacedReplica& other) {
    return other.agent == replica.agent && other.device == replica.device;
  });
}

// GFLOP/s; 0: nothing is known.
struct Seen {
  double now = 0, best = 0;
  double kept = 1;  // of the promised speed, where the device holds several
};
Seen seen_gflops(const std::vector<PlacedReplica>& live, const PlacedReplica& replica,
                 double microbatch_flops) {
  const SeenService& service = replica.service;
  if (service.now <= Duration{} || replica.gflops <= 0) return {};
  const std::int64_t on_device = on_device_of(live, replica);
  if (on_device > 1) {
    const bool explained = service.now <= service.best * on_device;
    return {.kept = explained ? 1 : service.best.seconds() / service.now.seconds()};
  }
  const double gflop = microbatch_flops / kFlopsPerGflop;
  return {gflop / service.now.seconds(), gflop / service.best.seconds()};
}

// The upper one of two in the middle; 0: none is known. So replicas that were slow from the start
// do not make a stage look inefficient.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

StageRates stage_rates(const std::vector<PlacedReplica>& live,
                       const std::vector<double>& microbatch_flops) {
  std::vector<Seen> seen;
  for (const PlacedReplica& replica : live) {
    const double flops = microbatch_flops.at(static_cast<std::size_t>(replica.stage));
    seen.push_back(seen_gflops(live, replica, flops));
  }
  std::vector<std::vector<double>> shares(microbatch_flops.size());  // of what is promised
  std::vector<double> all;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (seen[i].best <= 0) continue;
    const double share = seen[i].best / live[i].gflops;
    shares[static_cast<std::size_t>(live[i].stage)].push_back(share);
    all.push_back(share);
  }
  const double anywhere = all.empty() ? 1 : median(std::move(all));
  StageRates rates;
  for (std::vector<double>& of_stage : shares) {
    rates.efficiency.push_back(of_stage.empty() ? anywhere : median(std::move(of_stage)));
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    const double share = rates.efficiency[static_cast<std::size_t>(live[i].stage)];
    rates.gflops.push_back(seen[i].now > 0 ? seen[i].now / share : live[i].gflops * seen[i].kept);
  }
  return rates;
}

}  // namespace shoal::coordinator
