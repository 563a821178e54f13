#include "coordinator/core/rounds/line_times.h"

#include "coordinator/core/state/measured_lines.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

// Hosts on which several agents have replicas: those reach each other without the line that the
// coordinator has measured.
FlatMap<std::string, bool> shared_hosts(const State& state,
                                        const std::vector<ReplicaId>& replicas) {
  FlatMap<std::string, AgentId> first;
  FlatMap<std::string, bool> shared;
  for (const ReplicaId id : replicas) {
    const AgentRecord* agent = state.agents.find(state.replicas.at(id).agent);
    if (agent == nullptr || agent->host.empty()) continue;
    const AgentId* known = first.find(agent->host);
    if (known == nullptr) {
      first.put(agent->host, agent->id);
    } else if (*known != agent->id) {
      shared.put(agent->host, true);
    }
  }
  return shared;
}

}  // namespace

std::vector<Duration> line_times(const State& state, Instant now, const JobRecord& job,
                                 const std::vector<ReplicaId>& replicas) {
  std::vector<Duration> times(replicas.size());
  const auto stages = static_cast<StageIndex>(job.stages.size());
  if (stages < 2 || job.spec.trainer.kind == TrainerKind::kPython) return times;
  const FlatMap<AgentId, AgentLine> lines = lines_of(state, now);
  if (lines.empty()) return times;
  const swarm::CostModel model(job.spec, swarm::cost_options(job.spec));
  const auto bytes = static_cast<double>(model.tokens_per_microbatch() * model.boundary_bytes());
  const FlatMap<std::string, bool> shared = shared_hosts(state, replicas);
  FlatMap<AgentId, double> beside;
  for (const ReplicaId id : replicas) ++beside[state.replicas.at(id).agent];
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const ReplicaRecord& replica = state.replicas.at(replicas[i]);
    const AgentLine* line = lines.find(replica.agent);
    if (line == nullptr || !is_measured(*line)) continue;
    if (line->to_coordinator && shared.contains(state.agents.at(replica.agent).host)) continue;
    const double boundaries = replica.stage > 0 && replica.stage + 1 < stages ? 2 : 1;
    times[i] = seconds_f(boundaries * bytes * beside.at(replica.agent) / line->bytes_per_s());
  }
  return times;
}

}  // namespace shoal::coordinator
