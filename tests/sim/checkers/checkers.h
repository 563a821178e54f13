// One factory per invariant; the invariant is told at the top of its file.
#pragma once

#include <algorithm>
#include <memory>

#include "tests/sim/checker.h"

namespace shoal::sim {

// A replica on a device that only averages; the rules for those that train do not hold for it.
inline bool is_reducer(const Tables& tables, const coordinator::ReplicaRecord& replica) {
  const auto agent = tables.agents.find(replica.agent);
  if (agent == tables.agents.end()) return false;  // dropped by a planted bug
  const auto& devices = agent->second.devices;
  return std::any_of(devices.begin(), devices.end(), [&](const Device& device) {
    return device.index == replica.device && device.kind == DeviceKind::kReducer;
  });
}

std::unique_ptr<Checker> make_round_order(const Checker::Context& context);
std::unique_ptr<Checker> make_identical_replicas(const Checker::Context& context);
std::unique_ptr<Checker> make_recomputation(const Checker::Context& context);
std::unique_ptr<Checker> make_sent_norms(const Checker::Context& context);
std::unique_ptr<Checker> make_base_is_held(const Checker::Context& context);
std::unique_ptr<Checker> make_equal_votes(const Checker::Context& context);
std::unique_ptr<Checker> make_feedback(const Checker::Context& context);
std::unique_ptr<Checker> make_streaming(const Checker::Context& context);
std::unique_ptr<Checker> make_eager(const Checker::Context& context);
std::unique_ptr<Checker> make_groups(const Checker::Context& context);
std::unique_ptr<Checker> make_own_progress(const Checker::Context& context);
std::unique_ptr<Checker> make_sharded_momentum(const Checker::Context& context);
std::unique_ptr<Checker> make_quorum(const Checker::Context& context);
std::unique_ptr<Checker> make_token_count(const Checker::Context& context);
std::unique_ptr<Checker> make_ledger(const Checker::Context& context);
std::unique_ptr<Checker> make_one_replica_per_device(const Checker::Context& context);
std::unique_ptr<Checker> make_refused_memory(const Checker::Context& context);
std::unique_ptr<Checker> make_cordoned_devices(const Checker::Context& context);
std::unique_ptr<Checker> make_line_directions(const Checker::Context& context);
std::unique_ptr<Checker> make_line_ages(const Checker::Context& context);
std::unique_ptr<Checker> make_moves(const Checker::Context& context);
std::unique_ptr<Checker> make_coverage(const Checker::Context& context);
std::unique_ptr<Checker> make_replay(const Checker::Context& context);
std::unique_ptr<Checker> make_consistent_cut(const Checker::Context& context);
std::unique_ptr<Checker> make_drains(const Checker::Context& context);
std::unique_ptr<Checker> make_pauses(const Checker::Context& context);
std::unique_ptr<Checker> make_reducers(const Checker::Context& context);
std::unique_ptr<Checker> make_exactly_once(const Checker::Context& context);
std::unique_ptr<Checker> make_views(const Checker::Context& context);
std::unique_ptr<Checker> make_persist_before_send(const Checker::Context& context);
std::unique_ptr<Checker> make_found_trainers(const Checker::Context& context);
std::unique_ptr<Checker> make_lost_rounds(const Checker::Context& context);
std::unique_ptr<Checker> make_histories(const Checker::Context& context);
std::unique_ptr<Checker> make_proved_claims(const Checker::Context& context);
std::unique_ptr<Checker> make_recorded_momentum(const Checker::Context& context);
std::unique_ptr<Checker> make_stored_checkpoints(const Checker::Context& context);
std::unique_ptr<Checker> make_precedence(const Checker::Context& context);
std::unique_ptr<Checker> make_kept_cuts(const Checker::Context& context);
std::unique_ptr<Checker> make_honest_agents(const Checker::Context& context);
std::unique_ptr<Checker> make_evaluation_slices(const Checker::Context& context);
std::unique_ptr<Checker> make_deadlines(const Checker::Context& context);
std::unique_ptr<Checker> make_same_data(const Checker::Context& context);
std::unique_ptr<Checker> make_liveness(const Checker::Context& context);

}  // namespace shoal::sim
