#include "coordinator/core/decisions/stage_rates.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr double kFlopsPerGflop = 1e9;

bool is_alone(const std::vector<PlacedReplica>& live, const PlacedReplica& replica) {
  return std::count_if(live.begin(), live.end(), [&](const PlacedReplica& other) {
           return other.agent == replica.agent && other.device == replica.device;
         }) == 1;
}

// GFLOP/s; 0: nothing is known.
struct Seen {
  double now = 0, best = 0;
};
std::vector<Seen> seen_gflops(const std::vector<PlacedReplica>& live,
                              const std::vector<double>& microbatch_flops) {
  std::vector<Seen> all;
  for (const PlacedReplica& replica : live) {
    Seen& seen = all.emplace_back();
    const SeenService& service = replica.service;
    if (service.now <= Duration{} || replica.gflops <= 0 || !is_alone(live, replica)) continue;
    const double gflop =
        microbatch_flops.at(static_cast<std::size_t>(replica.stage)) / kFlopsPerGflop;
    seen = {gflop / service.now.seconds(), gflop / service.best.seconds()};
  }
  return all;
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
  const auto seen = seen_gflops(live, microbatch_flops);
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
    rates.gflops.push_back(seen[i].now > 0 ? seen[i].now / share : live[i].gflops);
  }
  return rates;
}

}  // namespace shoal::coordinator
