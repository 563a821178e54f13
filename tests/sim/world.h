// A whole cluster in virtual time: one coordinator, hosts, the networks between them, users and
// faults, all from one seed. A run has a safety phase with faults and a liveness phase without; the
// checkers watch both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/coordinator_process.h"
#include "tests/sim/host.h"
#include "tests/sim/network.h"
#include "tests/sim/peers.h"
#include "tests/sim/sim.h"

namespace shoal::sim {

class World {
 public:
  World(const SimOptions& options, Bug bug, bool print_trace);

  // The whole life of a seed: safety, healing, liveness. Ends early at the first violation.
  void run();

  // For scenarios: the cluster without drawn faults and users.
  void boot();
  void run_for(Duration length);
  bool run_until(const std::function<bool()>& condition, Duration limit);  // false: never came true
  bool all_jobs_over() const;

  // From the last fault until every live job had committed again.
  Duration recovery() const { return recovery_; }

  Sim& sim() { return sim_; }
  CoordinatorProcess& coordinator() { return coordinator_; }
  Host& host(int index) { return *hosts_[static_cast<std::size_t>(index)]; }
  Network& network() { return network_; }
  PeerNetwork& peers() { return peers_; }
  const Tables& tables() const { return coordinator_.tables(); }
  Trainer* trainer_of(ReplicaId replica);
  // The operator puts a cordoned or drained agent back to work, and tries until it is.
  void put_back(AgentId agent);
  // The operator lets a job go on, and tries until it does.
  void resume(JobId job);
  // The operator forgets what devices ran out of, from now on.
  void forgive_memory();

 private:
  friend class FaultInjector;
  void run_phases();
  bool step_until(Instant end);  // false: a violation
  void schedule_users();
  void submit(const JobSpec& spec);
  void heal();

  Sim sim_;
  Network network_;
  PeerNetwork peers_;
  CoordinatorProcess coordinator_;
  std::vector<std::unique_ptr<Host>> hosts_;
  Prng prng_;
  Duration restart_delay_ = seconds(2), recovery_;
};

}  // namespace shoal::sim
