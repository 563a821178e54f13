// Everything about one simulated run, drawn from its seed: how many agents, how slow the links and
// disks, every timeout of the cores, which faults exist and how often they strike. Numbers that
// decide together whether a cluster can work at all (a timeout below the time that the work takes)
// are drawn together.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "agent/core/agent.h"
#include "base/prng.h"
#include "coordinator/core/decisions/options.h"
#include "job/job_spec.h"
#include "tests/sim/faults.h"

namespace shoal::sim {

struct SimOptions {
  std::uint64_t seed = 0;
  int hosts = 4;
  int devices_per_host = 1;
  int reducers = 0;  // further hosts, after the others, that only average
  int jobs = 1;
  std::int64_t more_rounds = 0;    // of a job that continues the first one; 0: there is none
  std::int64_t values = 32;        // parameters of the model
  Duration safety = seconds(240);  // how long faults strike
  bool unequal = false;  // one pipeline on devices of different speeds, with replicas to spare
  Duration rest;         // after the faults all jobs pause for so long; zero: they do not

  Duration link_delay = milliseconds(20);  // mean, agents and coordinator
  double tail_probability = 0.02;          // of a message that takes much longer
  Duration tail = seconds(3);
  double duplicate_probability = 0.01;
  Duration peer_delay = milliseconds(10);  // mean, one frame between trainers
  Duration write_delay = milliseconds(3);  // mean, one batch of the coordinator's store
  Duration keepalive = seconds(8);         // a silent stream breaks after this
  Duration trainer_start = seconds(2);
  Duration inner_step = milliseconds(100);
  Duration load_time = milliseconds(500);
  Duration evaluate_time = milliseconds(200);
  Duration upload_time = milliseconds(800);

  coordinator::Options coordinator;
  agent::Options agent;  // times only; the host fills in who it is

  // Mean time between two strikes of a fault; zero: it does not exist in this run. The faults of
  // single messages (delay, duplicate, reorder) have probabilities above instead.
  std::array<Duration, kFaults> mean_between{};
  std::vector<Ambush> ambushes;

  // Behind the reducers come copies of the others, when a fault makes one.
  bool is_reducer(int host) const { return host >= hosts && host < hosts + reducers; }
  Duration mean_of(Fault fault) const { return mean_between[static_cast<std::size_t>(fault)]; }
  void set_mean(Fault fault, Duration mean) {
    mean_between[static_cast<std::size_t>(fault)] = mean;
  }

  // How long after the last fault every live job must have committed a round, and be over.
  Duration progress_limit() const;
  Duration completion_limit() const;
  // How long a job may be called training with too few replicas.
  Duration coverage_limit() const;
};

// Which faults a run may have: those that today's rules are known to endure, or all.
enum class FaultSet { kEndured, kAll };
bool is_endured(Fault fault);

SimOptions draw_options(std::uint64_t seed, FaultSet set = FaultSet::kEndured);

// What the host of a reducer has.
Device reducing_device();

// No faults, short times, nothing random but the delays: the ground for hand-written scenarios.
SimOptions calm_options(std::uint64_t seed);

// A job that fits the options; `index` makes the name.
JobSpec draw_job(const SimOptions& options, Prng& prng, int index);

}  // namespace shoal::sim
