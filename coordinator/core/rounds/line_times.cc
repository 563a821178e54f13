#include "coordinator/core/rounds/line_times.h"

#include "coordinator/core/state/measured_lines.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {

std::vector<Duration> line_times(const State& state, Instant now, const JobRecord& job,
                                 const std::vector<ReplicaId>& replicas) {
  std::vector<Duration> times(replicas.size());
  const auto stages = static_cast<StageIndex>(job.stages.size());
  if (stages < 2 || job.spec.trainer.kind == TrainerKind::kPython) return times;
  FlatMap<AgentId, double> beside;
  std::vector<AgentId> agents;
  for (const ReplicaId id : replicas) {
    agents.push_back(state.replicas.at(id).agent);
    ++beside[agents.back()];
  }
  const FlatMap<AgentId, AgentLine> lines = lines_between(state, now, agents);
  if (lines.empty()) return times;
  const swarm::CostModel model(job.spec, swarm::cost_options(job.spec));
  const auto bytes = static_cast<double>(model.tokens_per_microbatch() * model.boundary_bytes());
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const ReplicaRecord& replica = state.replicas.at(replicas[i]);
    const AgentLine* line = lines.find(replica.agent);
    if (line == nullptr || !is_measured(*line)) continue;
    const double boundaries = replica.stage > 0 && replica.stage + 1 < stages ? 2 : 1;
    times[i] = seconds_f(boundaries * bytes * beside.at(replica.agent) / line->bytes_per_s());
  }
  return times;
}

}  // namespace shoal::coordinator
