// How far the routers of simulated pipelines have come. Microbatches are not simulated: a router
// writes here that it is through with a round, and whoever waits for it reads that, as the step
// words of a real pipeline would tell it over any intact path.
#pragma once

#include <map>
#include <utility>

#include "outer_opt/core/round/round.h"

namespace shoal::sim {

class PipelineBoard {
 public:
  // The router draws nothing more before `to_step` of this round, which may be opened again later.
  void through(const RoundKey& key, ReplicaId router, Steps to_step) {
    steps_[{key, router}] = to_step;
  }
  bool is_through(const RoundKey& key, ReplicaId router, Steps to_step) const {
    const auto it = steps_.find({key, router});
    return it != steps_.end() && it->second >= to_step;
  }

  void forget() { steps_.clear(); }

 private:
  std::map<std::pair<RoundKey, ReplicaId>, Steps> steps_;
};

}  // namespace shoal::sim
