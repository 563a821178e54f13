// A whole cluster in virtual time: one coordinator, hosts, the networks between them, users and
// faults, all from one seed. A run has a safety phase with faults and a liveness phase without; the
// checkers watch both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/coordinator_process.h"
#include "tests/sim/host.h"
#include "tests/sim/network.h"
#include "tests/sim/peers.h"
#include "tests/sim/sim.h"

namespace shoal::sim {

class World final : public Census {
 public:
  World(const SimOptions& options, Bug bug, bool print_trace);

  // The whole life of a seed: safety, healing, liveness. Ends early at the first broken invariant.
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
  // A further host, off until a fault starts it as the copy of another one.
  Host& twin() { return *twin_; }
  Host& host(int index) {
    const auto at = static_cast<std::size_t>(index);
    return at < hosts_.size() ? *hosts_[at] : *twin_;
  }
  Network& network() { return network_; }
  PeerNetwork& peers() { return peers_; }
  const Tables& tables() const { return coordinator_.tables(); }
  std::vector<Holder> holders(const RoundKey& key) const override;
  std::vector<Copy> copies(const RoundKey& key) const override;
  Trainer* trainer_of(ReplicaId replica);
  // The operator puts a cordoned or drained agent back to work, and tries until it is.
  void put_back(AgentId agent);
  // The operator lets a job continue, and tries until it does.
  void resume(JobId job);
  // The operator forgets what devices ran out of, from now on.
  void forgive_memory();

 private:
  friend class FaultInjector;
  void run_phases();
  bool step_until(Instant end);  // false: a broken invariant
  void schedule_users();
  void submit(const JobSpec& spec);
  void ask_for_more(int looks);
  void heal();
  void heal_hosts();
  bool rest();  // false: a broken invariant
  Instant out_since(const Host& host) const;
  bool is_doubled(const Host& host) const;
  void replace_frozen();

  Sim sim_;
  Network network_;
  PeerNetwork peers_;
  CoordinatorProcess coordinator_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::unique_ptr<Host> twin_;
  Prng prng_;
  Duration restart_delay_ = seconds(2), recovery_;
  bool in_groups_ = false;            // a job averages in groups
  std::optional<JobSpec> continued_;  // the job that is to be continued, until it is
};

}  // namespace shoal::sim
