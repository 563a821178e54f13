// For tests: plans of one attempt.
#pragma once

#include <vector>

#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {

inline ReducePlan make_plan(CodecKind codec, std::int64_t values,
                            const std::vector<double>& weights, std::vector<double> shares = {}) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.codec = codec;
  plan.value_count = values;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    plan.members.push_back({ReplicaId(10 + i), "host:1", weights[i], 1, 0, 0});
  }
  if (shares.empty()) shares.assign(weights.size(), 1);
  assign_parts(plan, shares);
  return plan;
}

// The last `count` members become reducers.
inline ReducePlan with_reducers(ReducePlan plan, std::size_t count) {
  plan.topology = Topology::kParamServer;
  for (std::size_t i = plan.members.size() - count; i < plan.members.size(); ++i) {
    plan.members[i].reducer = true;
    plan.members[i].weight = 0;
  }
  return plan;
}

}  // namespace shoal::outer_opt
