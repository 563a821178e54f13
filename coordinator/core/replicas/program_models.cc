#include "coordinator/core/replicas/program_models.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/state/round_facts.h"
#include "messages/tensor_differences.h"

namespace shoal::coordinator {
namespace {

using Tensors = std::shared_ptr<const std::vector<TensorShape>>;

struct Told {
  ReplicaId replica;
  Tensors tensors;
};

// The list of tensors that this replica is compared with. It is that of a replica of the stage that
// holds the job's state; before any does, it is the first list that was heard.
std::optional<Told> measure_of(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  const std::vector<ReplicaId> holders = in_sync_replicas(state, job, replica.stage);
  for (const auto& [id, tensors] : state.tensors) {
    const ReplicaRecord* other = state.replicas.find(id);
    if (other == nullptr || id == replica.id) continue;
    if (other->job != replica.job || other->stage != replica.stage) continue;
    if (holders.empty() || std::ranges::count(holders, id) > 0) return Told{id, tensors};
  }
  return std::nullopt;
}

std::string agent_of(const State& state, ReplicaId replica) {
  return state.agents.at(state.replicas.at(replica).agent).name;
}

}  // namespace

void on_model_told(Transaction& tx, const LoadProgress& told) {
  const ReplicaRecord& replica = tx.state().replicas.at(told.replica);
  if (replica.state != ReplicaState::kLoading || is_reducer(tx.state(), replica)) return;
  const auto measure = measure_of(tx.state(), replica);
  const bool same = measure && *measure->tensors == told.tensors;
  tx.volatile_state().tensors.put(
      told.replica,
      same ? measure->tensors : std::make_shared<const std::vector<TensorShape>>(told.tensors));
  if (!measure || same || replica.source.kind == SourceKind::kCheckpoint) return;
  const std::string found = differences(told.tensors, *measure->tensors);
  if (found.empty()) return;
  fail_replica(tx, told.replica, ReplicaFailure::kDigestMismatch,
               "the program's model is another one than on " +
                   agent_of(tx.state(), measure->replica) + ": " + found +
                   " (build it from the job and the code alone, with the same packages on every "
                   "host)");
}

std::string why_other_values(const State& state, const ReplicaRecord& replica,
                             std::int64_t value_count) {
  const std::int64_t values = stage_of(state.jobs.at(replica.job), replica.stage).value_count;
  if (values != 0 && value_count != values) {
    return ": the program's model has " + std::to_string(value_count) +
           " trained values on this host, and " + std::to_string(values) +
           " where it was loaded first; build it from the job and the code alone";
  }
  const auto measure = measure_of(state, replica);
  const Tensors* mine = state.tensors.find(replica.id);
  if (measure && mine != nullptr) {
    const std::string types = type_differences(**mine, *measure->tensors);
    if (!types.empty()) {
      return ": the program draws its initial values in other types than on " +
             agent_of(state, measure->replica) + " (" + types + "); use one type on every host";
    }
  }
  return ": the program builds another model on each host; seed every generator that takes part, "
         "and load the same files";
}

}  // namespace shoal::coordinator
