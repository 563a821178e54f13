// What one run of the pipeline simulator is told, and what it measured. Times are those of one
// microbatch on a replica of speed 1; a fraction is of compute-ideal: all the speed of the agents
// of a stage, nobody dead, nothing waiting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/enumerators.h"
#include "base/time.h"
#include "swarm/core/plan/rebalance.h"

namespace shoal::sim::swarm {

using shoal::to_string;

enum class Schedule {
  kSwarm,          // hop-to-hop routing by the wiring
  kGpipe,          // static chains, all forwards, then all backwards; sends overlapped
  kGpipeBlocking,  // the same, computing stops while a tensor travels
  kOneForwardOneBackward,
  kSortedChains,  // GPipe with chains of equal speed and shares by speed
  // "2bw": as kSwarm, without a barrier between the steps of a round. A step's microbatches are
  // drawn while those of the step before come back; those before that must all be back, because
  // two versions of the weights are held: W(t+1) = W(t) - AdamW(gradient at W(t-1)).
  kTwoBuffered,
};
constexpr auto enumerators_of(Of<Schedule>) {
  using enum Schedule;
  return enumerators<Schedule>({{kSwarm, "swarm"},
                                {kGpipe, "gpipe"},
                                {kGpipeBlocking, "gpipe_blocking"},
                                {kOneForwardOneBackward, "1f1b"},
                                {kSortedChains, "sorted_chains"},
                                {kTwoBuffered, "2bw"}});
}

enum class Retrying {
  kOnLoss,   // known losses only, within a budget
  kTimeout,  // the naive one: no answer in time sends again and cancels nothing
};

struct MembershipEvent {  // one row of a trace: time, add or remove, node
  Instant at;
  bool add = false;
  std::int32_t agent = 0;
};

struct Options {
  std::int32_t agents = 16, stages = 4;
  std::int64_t microbatches = 256;  // per step, of all routers
  std::int32_t window = 128;        // in flight, of all routers
  Duration forward = milliseconds(50), backward = milliseconds(150);
  std::int64_t payload_bytes = 1'000'000;
  double bytes_per_s = 500e6 / 8;      // each direction of an uplink; 0: infinite
  std::int32_t agents_per_uplink = 1;  // behind one router box, sharing its line
  std::vector<std::vector<Duration>> one_way = {{Duration{}}};  // between regions; agent i: i mod n
  double jitter = 0.05;              // relative deviation of each service time
  std::vector<double> speeds = {1};  // cycled over the agents of a stage
  bool benchmarked = true;           // the wiring starts from a measurement at joining
  Schedule schedule = Schedule::kSwarm;
  bool response_time = false;  // weigh by response time, as published; a baseline
  Retrying retrying = Retrying::kOnLoss;
  Duration retry_timeout = seconds(10);

  double mtbf_h = 0;  // per agent, exponential; 0: nobody fails
  Duration back_after = seconds(300), detection = seconds(5);
  Duration restore = seconds(120);     // static chains load a checkpoint after every loss
  std::vector<MembershipEvent> trace;  // instead of mtbf_h
  std::int64_t state_bytes = 0;        // a joiner or a moved agent downloads them first
  bool rebalance = true;               // joiners to the weakest stage, emergency and periodic moves
  Duration rebalance_every = seconds(60);

  std::int64_t steps_per_round = 0;  // 0: no outer steps
  std::int64_t steps = 20;
  Duration time_max = seconds(32 * 3600);
  std::uint64_t seed = 1;
};

// Every broken rule in words; empty when the options are good.
std::string why_not(const Options& options);

struct Measured {
  double fraction = 0;  // of compute-ideal
  double bound = 1;     // mean over time of the weakest stage's living speed
  double virtual_s = 0;
  std::int64_t steps = 0, microbatches = 0, events = 0;
  std::int64_t deaths = 0, joins = 0, moves = 0, retries = 0,
               wasted = 0;                  // wasted: stale work done
  std::int64_t added = 0, added_again = 0;  // gradients counted by replicas; answered, not counted
  std::int64_t routers_lost = 0, voided = 0;  // and microbatches that were void with them
  double step_s_p50 = 0, step_s_p99 = 0;
  std::int64_t bytes = 0;
};

Measured simulate(const Options& options);

// Membership only: throughput is the weakest stage's speed. For days and thousands of agents.
struct FluidOptions {
  std::int32_t agents = 400, stages = 8;
  double life_h = 8, hours = 32;
  Duration back_after = seconds(600), download = seconds(60);
  Duration every = seconds(60);  // of periodic moves; 0: none
  ::shoal::swarm::RebalanceOptions rebalance{.drain = seconds(1)};
  bool join_weakest = true;  // else a random stage
  std::vector<double> speeds = {1};
  std::uint64_t seed = 1;
};
struct FluidMeasured {
  // Optimum: all living speed, evenly over the stages, half agents included.
  double of_optimum = 0, last_hour = 0;
  // The same without those that load after joining, and in whole agents of equal speed: nobody can
  // use the others.
  double of_loaded = 0, of_whole = 0;
  std::int64_t events = 0, moves = 0;
};
FluidMeasured simulate_fluid(const FluidOptions& options);

}  // namespace shoal::sim::swarm
