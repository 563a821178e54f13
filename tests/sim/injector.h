// Strikes a world with faults at drawn times: see faults.h for the kinds. Each kind that exists in
// a run has its own train of strikes; a strike that finds no target does nothing and is not
// counted.
#pragma once

#include <optional>

#include "tests/sim/world.h"

namespace shoal::sim {

class FaultInjector {
 public:
  explicit FaultInjector(World& world);
  void start();
  // Now, at this replica where the fault strikes one at all; at any when it is not there any more.
  void strike_at(Fault fault, ReplicaId replica);

 private:
  void arm(Fault fault);
  void strike(Fault fault);
  // Half of the faults that matter most in a reduce wait for one to be under way.
  void strike_at_the_worst_moment(Fault fault, int tries);
  Trainer* reducing_trainer();
  void strike_process(Fault fault);
  void strike_network(Fault fault);
  void crash_coordinator(Fault fault);
  // Faults of the coordinator's host, of whole hosts and of bits (strikes.cc).
  void strike_coordinator_host(Fault fault);
  void pause_coordinator();
  void restore(Fault fault);
  void tear_write(int tries);
  void cut_all_agents();
  void freeze_host();
  void start_twin();
  void slow_loads();
  void slow_group();
  void replace_data();
  void claim_falsely();
  void strike_a_host(Fault fault);
  void lose_stage();
  void flip(Fault fault);
  void flip_memory();
  void flip_checkpoint();
  void break_card(Trainer& trainer);
  void sicken_card(Trainer& trainer);
  void throttle(Trainer& trainer);
  void pause_agent();
  void pause_trainer();
  std::optional<JobId> any_job();  // that has not ended, while somebody hears of it
  void strike_by_command(Fault fault);
  void cancel_job();
  void pause_job();
  void take_out_of_work(Fault fault);

  Host& any_host();
  Trainer& any_trainer();
  void begin_lie(Trainer& trainer, Fault how);
  Duration some(Duration lo, Duration hi) { return {prng_.range(lo.ns, hi.ns)}; }

  World& world_;
  Sim& sim_;
  Prng prng_;
  Instant next_lie_;
  Trainer* target_ = nullptr;  // while one strike waits for a certain one
};

}  // namespace shoal::sim
