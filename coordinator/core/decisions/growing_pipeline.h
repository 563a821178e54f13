// What one device more makes of a pipeline: devices that would slow it down are left out, when it
// is planned and later (swarm/core/plan/throughput.h).
#pragma once

#include <vector>

#include "coordinator/core/decisions/placement.h"
#include "swarm/core/plan/stage_plan.h"

namespace shoal::coordinator {

// A pipeline with its replicas, and devices that are tried in addition. The input and the model
// must outlive it.
class GrowingPipeline {
 public:
  static constexpr double kSlowsDown = 0.97;  // who leaves less of the forecast is left out

  // `view`: of the same input.
  GrowingPipeline(const PlacementInput& input, const swarm::CostModel& model,
                  const swarm::RebalanceView& view);

  void add(PlannedDevice device, StageIndex stage);
  void take_back();             // the last one added
  double tokens_per_s() const;  // 0: a stage has nobody, or there are too many devices to compare

 private:
  const PlacementInput& input_;
  const swarm::CostModel& model_;
  std::vector<PlannedDevice> devices_;
  std::vector<swarm::Placement> placements_;
};

// The devices that the plan does not use although they can hold a stage, each with what its best
// place would make of the forecast. `usable`: the devices of the request's agents, in their order.
std::vector<LeftOut> left_out_of(const PlacementInput& input, const swarm::CostModel& model,
                                 const std::vector<FreeDevice>& usable,
                                 const swarm::PlanRequest& request, const swarm::StagePlan& plan);

}  // namespace shoal::coordinator
