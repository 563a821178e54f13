// The list of all invariants.
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {

Checkers make_all_checkers(const Checker::Context& context) {
  Checkers all;
  for (auto* make : {make_round_order,
                     make_proved_claims,
                     make_identical_replicas,
                     make_equal_votes,
                     make_recomputation,
                     make_sent_norms,
                     make_feedback,
                     make_streaming,
                     make_eager,
                     make_groups,
                     make_sharded_momentum,
                     make_base_is_held,
                     make_own_progress,
                     make_quorum,
                     make_token_count,
                     make_ledger,
                     make_one_replica_per_device,
                     make_refused_memory,
                     make_cordoned_devices,
                     make_line_directions,
                     make_line_ages,
                     make_moves,
                     make_coverage,
                     make_consistent_cut,
                     make_exactly_once,
                     make_views,
                     make_drains,
                     make_pauses,
                     make_precedence,
                     make_reducers,
                     make_replay,
                     make_persist_before_send,
                     make_found_trainers,
                     make_lost_rounds,
                     make_recorded_momentum,
                     make_histories,
                     make_stored_checkpoints,
                     make_kept_cuts,
                     make_honest_agents,
                     make_evaluation_slices,
                     make_deadlines,
                     make_same_data,
                     make_liveness}) {
    all.push_back(make(context));
  }
  return all;
}

std::string to_text(const RoundKey& key) {
  return to_string(key.job) + "/" + std::to_string(key.epoch) + "/" + std::to_string(key.round);
}

}  // namespace shoal::sim
