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

// Seen GFLOP/s; 0: nothing is known.
std::vector<double> seen_gflops(const std::vector<PlacedReplica>& live,
                                const std::vector<double>& microbatch_flops) {
  std::vector<double> seen;
  for (const PlacedReplica& replica : live) {
    const bool tells =
        replica.service > Duration{} && replica.gflops > 0 && is_alone(live, replica);
    const double flops = microbatch_flops.at(static_cast<std::size_t>(replica.stage));
    seen.push_back(tells ? flops / replica.service.seconds() / kFlopsPerGflop : 0);
  }
  return seen;
}

struct Sums {
  double seen = 0, promised = 0;
  double share() const { return promised > 0 ? seen / promised : 0; }
};

}  // namespace

StageRates stage_rates(const std::vector<PlacedReplica>& live,
                       const std::vector<double>& microbatch_flops) {
  const auto seen = seen_gflops(live, microbatch_flops);
  std::vector<Sums> stages(microbatch_flops.size());
  Sums all;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (seen[i] <= 0) continue;
    for (Sums* sums : {&stages[static_cast<std::size_t>(live[i].stage)], &all}) {
      sums->seen += seen[i];
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
    rates.gflops.push_back(seen[i] > 0 ? seen[i] / share : live[i].gflops);
  }
  return rates;
}

}  // namespace shoal::coordinator
