// Decides which free devices get the next replicas of a job and for which stages, and which
// replicas change their stage. Pure decisions: jobs.cc and replicas/placing.cc carry them out.
//
// A job of one stage gets every free device that fits, up to swarm.max_replicas, the fastest first.
// A pipeline is cut when it starts: the planner of swarm/core places it on the free devices, all at
// once or not at all. The cut then holds, unless the job starts again (is_worth_recut()). Devices
// that become free later go to a stage below min_replicas, else to the weakest stage. A device may
// hold several stages of one job (swarm/core/plan/assignment.h says when that pays). After the
// start that happens only when a stage is below min_replicas and no other device can help, and only
// for as long as it is useful. Agents that could not load this job get no replica, nor do devices
// that rest after a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/enumerators.h"
#include "base/ids.h"
#include "base/units.h"
#include "coordinator/core/decisions/plan_cluster.h"
#include "coordinator/core/decisions/seen_service.h"
#include "job/job_spec.h"
#include "messages/block_times.h"
#include "swarm/core/plan/cost_model.h"
#include "swarm/core/plan/rebalance.h"

namespace shoal::coordinator {

using shoal::to_string;

// Replicas that a joiner downloads its state from at the same time, at most.
inline constexpr std::size_t kSourcesMax = 8;

// A device without replicas, or one that serves stages of this job only and has memory left.
struct FreeDevice {
  AgentId agent;
  std::int32_t device = 0;
  Bytes memory;             // not taken
  double gflops = 0;        // 0: not measured; counts as the mean. See go_by_blocks()
  std::string domain;       // failure domain: label `region`, else the host
  bool refused = false;     // this agent failed to load this job for a reason that will not go away
  bool resting = false;     // backing off after a failure,
  bool rests_long = false;  //   for so long that a job does otherwise if it can
  std::vector<StageIndex> holds;  // of this job
  double availability = 1;        // of its agent (health_record.h): plans use speed times this
  bool ran_out = false;           // of memory, with the job's program, so `memory` is 0
  Whereabouts at = {};
  std::optional<BlockTimes> block = {};  // of the job's model, as the device measured it
  // Times its speed with the whole model, where it leads a replica group and the model may be cut:
  // the leader alone computes a stage.
  double group = 1;
  // Share of its time that processes of others take, which `gflops` and `block` are less by
  // (foreign_load.h). 0: none, or a replica is on it.
  double foreign = 0;
};

// A replica that is there or on its way.
struct PlacedReplica {
  ReplicaId id;
  StageIndex stage = 0;
  Bytes memory;  // of its device
  double gflops = 0;
  bool loading = false;
  bool leaving = false;  // its agent is drained: another one may take its place
  bool stays = false;    // it keeps a copy of a stage that nobody serves
  AgentId agent;
  std::int32_t device = 0;
  double availability = 1;
  Duration expected_life = seconds(1800);
  SeenService service;
  std::string domain;  // see FreeDevice
  Whereabouts at;
  std::vector<StageIndex> left = {};     // the stages that its device has moved away from lately
  std::optional<BlockTimes> block = {};  // see FreeDevice
};

struct PlacementInput {
  JobSpec spec;                // derived fields filled in
  std::vector<UnitRange> cut;  // whole_model() for one stage; empty: not cut yet
  std::vector<PlacedReplica> live;
  std::int64_t devices_known = 0;  // free or not, of all agents
  std::vector<FreeDevice> free;
  bool has_trained = true;    // a round was committed: a replica in sync is worth something
  std::int64_t quota = 0;     // devices that the jobs of its owner may hold; 0: no limit
  std::int64_t withheld = 0;  // devices that the quota withholds
  // Devices of agents that may not run the program of the job, and what would allow it.
  std::int64_t forbidden = 0;
  std::string forbidden_why = {};
  SiteLines sites = {};
  std::int64_t cordoned = 0;  // devices on which replicas kept failing (device_failures.h)
  // What embedding and head cost, once go_by_blocks() has made `gflops` comparable speeds.
  std::optional<swarm::EndCosts> ends = {};
};

enum class PlacementReason {
  kPlaced,
  kComplete,       // nothing more is wanted
  kNoAgents,       // no devices at all
  kNoFreeDevice,   // all are taken or resting
  kNoDeviceFits,   // free ones are too small
  kAllRefused,     // free ones cannot load this job
  kTooFewDevices,  // some fit, but not min_replicas times for every stage
};
constexpr auto enumerators_of(Of<PlacementReason>) {
  using enum PlacementReason;
  return enumerators<PlacementReason>({{kPlaced, "placed"},
                                       {kComplete, "complete"},
                                       {kNoAgents, "no_agents"},
                                       {kNoFreeDevice, "no_free_device"},
                                       {kNoDeviceFits, "no_device_fits"},
                                       {kAllRefused, "all_refused"},
                                       {kTooFewDevices, "too_few_devices"}});
}

struct Place {
  AgentId agent;
  std::int32_t device = 0;
  StageIndex stage = 0;
  bool operator==(const Place&) const = default;
};

// What the planner expects of the placed replicas (swarm/core/plan/throughput.h), from what devices
// measured of the model, or of a matrix product. 0: no speed is known.
struct Forecast {
  double tokens_per_s = 0;  // over whole rounds
  double step_s = 0;        // one inner step
  double round_s = 0;       // its inner steps and the average
  double bubble = 0;        // share of a step lost to filling and draining
  double average_s = 0;     // of the round: waiting for the average
  double network = 1;       // what lines let through of what the devices compute
  // The line that binds: who is behind it, and its rate. Nobody: devices bind.
  std::vector<AgentId> behind_line;
  double line_bytes_per_s = 0;
  LineSources lines;                // of the agents with placed devices
  std::int64_t speeds_assumed = 0;  // placed devices that have not measured a block of the model
};

// A free device that would make the pipeline slower: what it would train with it.
struct LeftOut {
  AgentId agent;
  std::int32_t device = 0;
  double with = 0, without = 0;  // tokens/s
  double line_bytes_per_s = 0;   // of its agent; 0: not measured
};

// A device that a plan counts with less than its speed, because others use it.
struct LoadedDevice {
  AgentId agent;
  std::int32_t device = 0;
  double share = 0;  // of its time
};
inline constexpr std::size_t kLoadedDevicesMax = 64;  // that are named

struct PlacementDecision {
  PlacementReason reason = PlacementReason::kComplete;
  std::vector<Place> places;   // by stage, then the fastest first
  std::vector<UnitRange> cut;  // the given one, or the chosen one; empty when none was found
  std::vector<Bytes> memory;   // of one replica, per stage of the cut
  Forecast forecast;           // of `places`, while no replica is live
  std::vector<LeftOut> left_out;
  std::vector<LoadedDevice> loaded;  // of the free devices
  // The numbers behind the reason. `needed`: the memory of the smallest stage; without a cut, the
  // least that the largest stage can need. `fitting`: free devices with that memory, not refused.
  // `resting`: those of them that rest after a failure. `wanted`: the devices that min_replicas of
  // every stage need (0: the number of stages is open). `missing`: how many of these are lacking.
  // Devices that hold a replica count in none of these.
  Bytes needed, largest;
  std::int64_t free = 0, fitting = 0, refused = 0, resting = 0, wanted = 0, missing = 0;
  std::int64_t ran_out = 0;  // free devices on which the program of the job ran out of memory
  std::int64_t quota = 0, withheld = 0, forbidden = 0, cordoned = 0;  // of the input
  std::string forbidden_why = {};                                     // of the input
};

// Removes from `free` the devices that the owner's quota does not cover. All jobs of the owner hold
// `held` devices now. Devices that this job has already stay; among the others, those that can hold
// `needed` are preferred, then the fastest.
void keep_within_quota(PlacementInput& input, std::int64_t held, Bytes needed);

PlacementDecision decide_placement(const PlacementInput& input);

// From this share of the present forecast on, a plan is worth that the job is placed anew.
inline constexpr double kMuchBetter = 1.2;
// Whether a job that starts again gets the cut of `other`: where that is much better by the
// forecasts, or the devices cannot serve the cut that it has.
bool is_worth_recut(const PlacementDecision& kept, const PlacementDecision& other);

// The free devices that others use.
std::vector<LoadedDevice> loaded_devices(const PlacementInput& input);

// The live replicas as the rebalancing of swarm/core sees them; needs a cut.
swarm::RebalanceView rebalance_view(const PlacementInput& input);

// What the planner expects of the live replicas as they are placed; all zeros: a stage has nobody,
// or no speed is known.
Forecast forecast_now(const PlacementInput& input);

// Replicas that must leave their stage because another one is below min_replicas and no free device
// is there for it.
std::vector<swarm::Move> decide_emergency(const PlacementInput& input);

// The best replica to end among those that share a device and are no longer useful: their stage
// keeps min_replicas without them, and the weakest stage loses almost no speed.
std::optional<ReplicaId> decide_unsharing(const PlacementInput& input);

std::int64_t max_replicas(const JobSpec& spec);  // per stage, 0: no limit
// The cut of a job of one stage.
std::vector<UnitRange> whole_model(const JobSpec& spec);

// The reason with its numbers, for people; empty when everything is placed.
std::string explain(const PlacementDecision& decision);

}  // namespace shoal::coordinator
