#include "coordinator/core/decisions/growing_pipeline.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr std::size_t kComparedMax = 256;  // devices: among more, one decides little

}  // namespace

GrowingPipeline::GrowingPipeline(const PlacementInput& input, const swarm::CostModel& model,
                                 const swarm::RebalanceView& view)
    : input_(input), model_(model) {
  std::size_t i = 0;
  for (const PlacedReplica& replica : input.live) {
    if (replica.leaving) continue;
    add({replica.agent, view.replicas[i].speed, replica.memory, replica.domain, replica.at},
        replica.stage);
    ++i;
  }
}

void GrowingPipeline::add(PlannedDevice device, StageIndex stage) {
  placements_.push_back({static_cast<std::int32_t>(devices_.size()), stage, 1});
  devices_.push_back(std::move(device));
}

void GrowingPipeline::take_back() {
  placements_.pop_back();
  devices_.pop_back();
}

double GrowingPipeline::tokens_per_s() const {
  if (devices_.size() > kComparedMax) return 0;
  for (StageIndex s = 0; s < static_cast<StageIndex>(input_.cut.size()); ++s) {
    if (std::ranges::find(placements_, s, &swarm::Placement::stage) == placements_.end()) return 0;
  }
  const swarm::Cluster cluster = cluster_of(input_.spec, devices_, input_.sites);
  return swarm::Forecaster(model_, cluster).of(input_.cut, placements_).tokens_per_s;
}

std::vector<LeftOut> left_out_of(const PlacementInput& input, const swarm::CostModel& model,
                                 const std::vector<FreeDevice>& usable,
                                 const swarm::PlanRequest& request, const swarm::StagePlan& plan) {
  std::vector<LeftOut> left_out;
  if (usable.size() > kComparedMax) return left_out;
  const swarm::Forecaster forecaster(model, request);
  const std::int64_t most = max_replicas(input.spec);
  std::vector<swarm::Placement> placed = plan.assignment.placements;
  for (std::size_t i = 0; i < usable.size(); ++i) {
    const auto agent = static_cast<std::int32_t>(i);
    if (std::ranges::find(placed, agent, &swarm::Placement::agent) != placed.end()) continue;
    double with = 0;
    for (StageIndex s = 0; s < static_cast<StageIndex>(plan.stages.size()); ++s) {
      const auto there = std::ranges::count(placed, s, &swarm::Placement::stage);
      if (plan.memory[static_cast<std::size_t>(s)] > usable[i].memory) continue;
      if (most > 0 && there >= most) continue;
      placed.push_back({agent, s, 1});
      with = std::max(with, forecaster.of(plan.stages, placed).tokens_per_s);
      placed.pop_back();
    }
    if (with <= 0) continue;
    left_out.push_back({usable[i].agent, usable[i].device, with, plan.throughput.tokens_per_s,
                        usable[i].at.line.bytes_per_s()});
  }
  return left_out;
}

}  // namespace shoal::coordinator
