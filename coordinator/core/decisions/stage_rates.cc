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

struct Sums {
  double best = 0, promised = 0;
  double share() const { return promised > 0 ? best / promised : 0; }
};

}  // namespace

StageRates stage_rates(const std::vector<PlacedReplica>& live,
                       const std::vector<double>& microbatch_flops) {
  const auto seen = seen_gflops(live, microbatch_flops);
  std::vector<Sums> stages(microbatch_flops.size());
  Sums all;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (seen[i].best <= 0) continue;
    for (Sums* sums : {&stages[static_cast<std::size_t>(live[i].stage)], &all}) {
      sums->best += seen[i].best;
      sums->promised += live[i].gflops;
    }
  }
  StageRates rates;
  for (const Sums& stage : stages) {
    rates.efficiency.push_back(stage.share() > 0 ? stage.share()
                                                 : (all.share() > 0 ? all.share() : 1));
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    const double share = rates.efficiency[static_cast<std::size_t>(live[i].stage)];
    rates.gflops.push_back(seen[i].now > 0 ? seen[i].now / share : live[i].gflops);
  }
  return rates;
}

}  // namespace shoal::coordinator
