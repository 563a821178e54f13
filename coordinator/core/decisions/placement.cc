// While replicas of a job live, its cut is filled device by device (swarm::joiner_stage). A
// pipeline that starts, for the first time or again, is placed as a whole; a cut that it has stays
// (swarm::plan_stages).
#include "coordinator/core/decisions/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "base/number_text.h"
#include "coordinator/core/decisions/growing_pipeline.h"
#include "coordinator/core/decisions/stage_rates.h"
#include "outer_opt/core/step/fragments.h"
#include "swarm/core/plan/sharing.h"
#include "swarm/core/plan/stage_plan.h"

namespace shoal::coordinator {
namespace {

constexpr double kFlopsPerGflop = 1e9;
constexpr double kNextToNothing = 0.95;     // of the weakest capacity: see decide_unsharing
constexpr std::size_t kForecastMax = 1024;  // replicas

bool faster(const FreeDevice& a, const FreeDevice& b) {
  return std::tuple(-a.gflops * a.availability, a.agent, a.device) <
         std::tuple(-b.gflops * b.availability, b.agent, b.device);
}

// Mean of the measured speeds; 0: none is.
double mean_gflops(const PlacementInput& input) {
  double sum = 0, count = 0;
  const auto add = [&](double gflops) { sum += gflops, count += gflops > 0; };
  for (const FreeDevice& device : input.free) add(device.gflops);
  for (const PlacedReplica& replica : input.live) add(replica.gflops);
  return count > 0 ? sum / count : 0;
}

double speed_of(double gflops, double mean) {
  if (gflops <= 0) gflops = mean > 0 ? mean : 1;
  return gflops * kFlopsPerGflop;
}

// The speed to plan with: an agent that is often disconnected is worth less than a steady one.
template <typename Holder>
double steady_speed(const Holder& device, double mean) {
  return speed_of(device.gflops, mean) * device.availability;
}

std::int32_t min_replicas(const JobSpec& spec) {
  return static_cast<std::int32_t>(spec.swarm.min_replicas);
}

std::vector<FreeDevice> usable_devices(const PlacementInput& input) {
  std::vector<FreeDevice> usable;
  for (const FreeDevice& device : input.free) {
    if (!device.refused && !device.resting && device.holds.empty()) usable.push_back(device);
  }
  std::sort(usable.begin(), usable.end(), faster);
  return usable;
}

void count_devices(const PlacementInput& input, PlacementDecision& decision) {
  for (const FreeDevice& device : input.free) {
    if (!device.holds.empty()) continue;
    ++decision.free;
    const bool fits = !device.refused && device.memory >= decision.needed;
    decision.largest = std::max(decision.largest, device.memory);
    decision.fitting += fits;
    decision.refused += device.refused;
    decision.ran_out += device.ran_out;
    decision.resting += fits && device.resting;
  }
}

std::string because_of_quota(const PlacementDecision& decision) {
  if (decision.withheld == 0) return {};
  return "; " + std::to_string(decision.withheld) +
         " more are withheld: the jobs of its owner may hold " + std::to_string(decision.quota) +
         " devices";
}

std::string because_forbidden(const PlacementDecision& decision) {
  if (decision.forbidden == 0) return {};
  return "; the agents of " + std::to_string(decision.forbidden) + " devices do " +
         decision.forbidden_why;
}

std::string because_cordoned(const PlacementDecision& decision) {
  if (decision.cordoned == 0) return {};
  return "; cordoned after failures: " + std::to_string(decision.cordoned) +
         (decision.cordoned == 1 ? " device" : " devices") +
         " (shoal agent ls shows where, shoal agent uncordon tries again)";
}

std::string because_it_ran_out(const PlacementDecision& decision) {
  return "its program ran out of memory on " + std::to_string(decision.ran_out) +
         (decision.ran_out == 1 ? " free device" : " free devices") +
         " (submit it with a smaller batch, or run shoal agent uncordon to try it there again)";
}

PlacementReason why_nothing(const PlacementDecision& decision, const PlacementInput& input) {
  if (input.devices_known == 0) return PlacementReason::kNoAgents;
  if (decision.fitting > decision.resting) return PlacementReason::kTooFewDevices;
  if (decision.free == 0 || decision.resting > 0) return PlacementReason::kNoFreeDevice;
  return decision.refused == decision.free ? PlacementReason::kAllRefused
                                           : PlacementReason::kNoDeviceFits;
}

// ---- a cut is given

std::vector<std::int64_t> replicas_per_stage(const swarm::RebalanceView& view) {
  std::vector<std::int64_t> counts(view.stages.size(), 0);
  for (const auto& replica : view.replicas) ++counts[static_cast<std::size_t>(replica.stage)];
  return counts;
}

std::int64_t lacking(const swarm::RebalanceView& view, std::int64_t at_least) {
  std::int64_t lack = 0;
  for (const std::int64_t count : replicas_per_stage(view)) {
    lack += std::max<std::int64_t>(0, at_least - count);
  }
  return lack;
}

bool is_full(const swarm::RebalanceView& view, std::int64_t most) {
  const auto counts = replicas_per_stage(view);
  return most > 0 && std::all_of(counts.begin(), counts.end(), [&](auto n) { return n >= most; });
}

// A round by time ends after the step that it is in, and never outlasts the job.
double round_seconds(const JobSpec& spec, double step_s) {
  const double by_steps = step_s * static_cast<double>(outer_opt::round_length(spec.sync).count());
  if (spec.sync.every_s == 0) return by_steps;
  return std::min(by_steps, std::max(step_s, static_cast<double>(spec.sync.every_s)));
}

PlannedDevice planned(const FreeDevice& device, double mean) {
  return {device.agent, steady_speed(device, mean), device.memory, device.domain, device.at,
          device.group};
}

std::vector<PlannedDevice> planned(const std::vector<FreeDevice>& devices, double mean) {
  std::vector<PlannedDevice> all;
  for (const FreeDevice& device : devices) all.push_back(planned(device, mean));
  return all;
}

Forecast forecast_of(const JobSpec& spec, const std::vector<PlannedDevice>& devices,
                     const swarm::Cluster& cluster, const std::vector<swarm::Placement>& placed,
                     const swarm::Throughput& throughput) {
  const auto routers = std::ranges::count(placed, 0, &swarm::Placement::stage);
  const auto batch = static_cast<double>(routers * spec.train.batch * spec.model.context);
  Forecast forecast{.tokens_per_s = throughput.tokens_per_s};
  forecast.step_s = batch / throughput.training_tokens_per_s;
  forecast.round_s = round_seconds(spec, forecast.step_s) + throughput.average_s;
  forecast.bubble = throughput.bubble;
  forecast.average_s = throughput.average_s;
  forecast.network = throughput.network;
  forecast.lines = sources_of_lines(devices);
  if (throughput.full_line < 0) return forecast;
  const swarm::SharedLine& full = cluster.lines[static_cast<std::size_t>(throughput.full_line)];
  forecast.line_bytes_per_s = full.bytes_per_s;
  for (const std::int32_t i : full.agents) {
    const AgentId agent = devices[static_cast<std::size_t>(i)].agent;
    if (std::ranges::find(forecast.behind_line, agent) == forecast.behind_line.end()) {
      forecast.behind_line.push_back(agent);
    }
  }
  return forecast;
}

Forecast forecast_of_one_stage(const PlacementInput& input, const swarm::CostModel& model,
                               const std::vector<FreeDevice>& placed) {
  const double mean = mean_gflops(input);
  if (mean <= 0 || placed.empty()) return {};
  const std::vector<PlannedDevice> devices = planned(placed, mean);
  const swarm::Cluster cluster = cluster_of(input.spec, devices, input.sites);
  std::vector<swarm::Placement> places;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(placed.size()); ++i)
    places.push_back({i, 0, 1});
  return forecast_of(input.spec, devices, cluster, places,
                     swarm::Forecaster(model, cluster).of({model.whole()}, places));
}

// ---- a device for several stages

// The speed of a replica that shares its device equally with `more` others.
double speed_beside(const FreeDevice& device, double mean, std::size_t more) {
  return steady_speed(device, mean) / static_cast<double>(more + 1);
}

FreeDevice* best_to_share(std::vector<FreeDevice>& devices, StageIndex stage, Bytes memory,
                          double mean) {
  FreeDevice* best = nullptr;
  for (FreeDevice& device : devices) {
    const auto& holds = device.holds;
    if (holds.empty() || device.refused || device.resting || device.memory < memory) continue;
    if (std::find(holds.begin(), holds.end(), stage) != holds.end()) continue;
    if (best == nullptr ||
        speed_beside(device, mean, holds.size()) > speed_beside(*best, mean, best->holds.size())) {
      best = &device;
    }
  }
  return best;
}

// The free devices as they are after the decision so far.
std::vector<FreeDevice> after_places(const PlacementInput& input,
                                     const PlacementDecision& decision) {
  std::vector<FreeDevice> devices = input.free;
  for (const Place& place : decision.places) {
    for (FreeDevice& device : devices) {
      if (device.agent != place.agent || device.device != place.device) continue;
      device.holds.push_back(place.stage);
      device.memory -= decision.memory.at(static_cast<std::size_t>(place.stage));
    }
  }
  return devices;
}

bool somebody_rests(const PlacementInput& input, Bytes memory) {
  return std::any_of(input.free.begin(), input.free.end(), [&](const FreeDevice& device) {
    const bool returns = device.resting && !device.rests_long;
    return returns && !device.refused && device.holds.empty() && device.memory >= memory;
  });
}

// Where a stage lacks replicas and neither a free device, nor one that rests, nor a move can help.
void share_devices(const PlacementInput& input, swarm::RebalanceView& view,
                   PlacementDecision& decision) {
  const std::int32_t least = min_replicas(input.spec);
  if (!swarm::emergency_moves(view, least).empty()) return;
  std::vector<FreeDevice> devices = after_places(input, decision);
  const double mean = mean_gflops(input);
  std::vector<std::int64_t> counts = replicas_per_stage(view);
  for (StageIndex stage = 0; stage < static_cast<StageIndex>(counts.size()); ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    if (somebody_rests(input, decision.memory[s])) continue;
    for (; counts[s] < least; ++counts[s]) {
      FreeDevice* device = best_to_share(devices, stage, decision.memory[s], mean);
      if (device == nullptr) break;
      decision.places.push_back({device->agent, device->device, stage});
      view.replicas.push_back({.stage = stage,
                               .speed = speed_beside(*device, mean, device->holds.size()),
                               .memory = device->memory,
                               .domain = device->domain});
      device->holds.push_back(stage);
      device->memory -= decision.memory[s];
    }
  }
}

void describe_cut(const PlacementInput& input, const swarm::CostModel& model,
                  PlacementDecision& decision) {
  decision.cut = input.cut;
  for (const UnitRange range : input.cut) decision.memory.push_back(model.memory(range));
  decision.needed = *std::min_element(decision.memory.begin(), decision.memory.end());
  decision.wanted = static_cast<std::int64_t>(input.cut.size()) * min_replicas(input.spec);
}

PlacementDecision fill_cut(const PlacementInput& input, const swarm::CostModel& model) {
  PlacementDecision decision;
  describe_cut(input, model, decision);
  count_devices(input, decision);
  swarm::RebalanceView view = rebalance_view(input);
  const auto most = static_cast<std::int32_t>(max_replicas(input.spec));
  const bool full = is_full(view, most);
  const double mean = mean_gflops(input);
  const bool pipeline = input.cut.size() > 1;
  GrowingPipeline trained(input, model, view);
  std::vector<FreeDevice> placed;
  for (const FreeDevice& device : usable_devices(input)) {
    const auto join =
        swarm::joiner_stage(view, {device.memory, device.domain}, min_replicas(input.spec), most);
    if (join.reason == swarm::JoinReason::kNothingFits) continue;
    const double before = pipeline ? trained.tokens_per_s() : 0;
    trained.add(planned(device, mean), join.stage);
    const bool is_lacking = lacking(view, min_replicas(input.spec)) > 0;
    const double after = before > 0 && !is_lacking ? trained.tokens_per_s() : before;
    if (after < GrowingPipeline::kSlowsDown * before) {
      trained.take_back();
      decision.left_out.push_back(
          {device.agent, device.device, after, before, device.at.line.bytes_per_s()});
      continue;
    }
    decision.places.push_back({device.agent, device.device, join.stage});
    placed.push_back(device);
    view.replicas.push_back({.stage = join.stage,
                             .speed = steady_speed(device, mean),
                             .memory = device.memory,
                             .domain = device.domain});
  }
  if (pipeline && lacking(view, min_replicas(input.spec)) > 0) {
    share_devices(input, view, decision);
  }
  decision.missing = lacking(view, min_replicas(input.spec));
  if (pipeline && input.live.empty() && decision.missing > 0) decision.places.clear();
  std::stable_sort(decision.places.begin(), decision.places.end(),
                   [](const Place& a, const Place& b) { return a.stage < b.stage; });
  if (!pipeline && input.live.empty()) {
    decision.forecast = forecast_of_one_stage(input, model, placed);
  }
  decision.reason = !decision.places.empty() ? PlacementReason::kPlaced
                    : full                   ? PlacementReason::kComplete
                                             : why_nothing(decision, input);
  return decision;
}

// ---- the model is to be cut

swarm::PlanRequest plan_request(const PlacementInput& input,
                                const std::vector<PlannedDevice>& devices) {
  swarm::PlanRequest request{cluster_of(input.spec, devices, input.sites)};
  request.stages = static_cast<std::int32_t>(input.spec.swarm.stages);
  request.cut = input.cut;
  request.assignment = {min_replicas(input.spec),
                        static_cast<std::int32_t>(max_replicas(input.spec)), true};
  return request;
}

PlacementDecision cut_and_place(const PlacementInput& input, const swarm::CostModel& model) {
  const std::vector<FreeDevice> usable = usable_devices(input);
  const double mean = mean_gflops(input);
  const std::vector<PlannedDevice> devices = planned(usable, mean);
  const swarm::PlanRequest request = plan_request(input, devices);
  const swarm::StagePlan plan = swarm::plan_stages(model, request);
  SHOAL_CHECK(plan.reason != swarm::PlanReason::kMoreStagesThanLayers);  // validate() refuses it
  PlacementDecision decision;
  decision.needed = plan.needed;
  decision.wanted = input.spec.swarm.stages * min_replicas(input.spec);
  if (!input.cut.empty()) describe_cut(input, model, decision);
  count_devices(input, decision);
  if (!plan.ok()) {
    const std::int64_t able = decision.fitting - decision.resting;
    decision.missing = std::max<std::int64_t>(plan.agents_missing, decision.wanted - able);
    decision.reason = why_nothing(decision, input);
    return decision;
  }
  decision.reason = PlacementReason::kPlaced;
  decision.cut = plan.stages;
  decision.memory = plan.memory;
  for (const swarm::Placement& placement : plan.assignment.placements) {  // by stage, then speed
    const FreeDevice& device = usable[static_cast<std::size_t>(placement.agent)];
    decision.places.push_back({device.agent, device.device, placement.stage});
  }
  if (mean > 0) {
    decision.forecast =
        forecast_of(input.spec, devices, request, plan.assignment.placements, plan.throughput);
  }
  decision.left_out = left_out_of(input, model, usable, request, plan);
  return decision;
}

// Placed devices that have not measured a block of the model.
std::int64_t count_assumed_speeds(const PlacementInput& input, const PlacementDecision& decision) {
  if (decision.forecast.tokens_per_s <= 0) return 0;
  return std::ranges::count_if(input.free, [&](const FreeDevice& device) {
    return !device.block && std::ranges::any_of(decision.places, [&](const Place& place) {
      return place.agent == device.agent && place.device == device.device;
    });
  });
}

std::string readable(Bytes bytes) { return size_text(static_cast<double>(bytes.count())); }

double known_or_assumed(double bytes_per_s) { return bytes_per_s > 0 ? bytes_per_s : kAssumedLine; }

// Bytes/s that those who hold the state of a stage send together to who joins it. Where only a
// checkpoint has it, that of one line is assumed.
double sources_of(const PlacementInput& input, StageIndex stage) {
  std::vector<double> up;
  for (const PlacedReplica& replica : input.live) {
    if (replica.stage != stage || replica.loading || replica.leaving) continue;
    up.push_back(known_or_assumed(replica.at.line.up));
  }
  if (up.empty()) return kAssumedLine;
  std::ranges::sort(up, std::greater());
  if (up.size() > kSourcesMax) up.resize(kSourcesMax);
  return std::accumulate(up.begin(), up.end(), 0.0);
}

// Adds the live replicas to the view, with the share of its device that each one gets. `gflops` has
// one entry per replica.
void add_replicas(const PlacementInput& input, const std::vector<double>& gflops,
                  swarm::RebalanceView& view) {
  std::vector<std::pair<AgentId, std::int32_t>> devices;
  std::vector<double> speeds;
  std::vector<swarm::Placement> placements;
  const double mean = mean_gflops(input);
  for (std::size_t i = 0; i < input.live.size(); ++i) {
    const PlacedReplica& replica = input.live[i];
    if (replica.leaving) continue;
    const std::pair device(replica.agent, replica.device);
    const auto known = std::find(devices.begin(), devices.end(), device);
    placements.push_back({static_cast<std::int32_t>(known - devices.begin()), replica.stage, 1});
    const double speed = speed_of(gflops[i], mean) * replica.availability;
    if (known == devices.end()) devices.push_back(device), speeds.push_back(speed);
    double& of_device = speeds[static_cast<std::size_t>(placements.back().agent)];
    of_device = std::min(of_device, speed);
    view.replicas.push_back({.id = replica.id,
                             .stage = replica.stage,
                             .memory = replica.memory,
                             .expected_life = replica.expected_life,
                             .in_transit = replica.loading,
                             .stays = replica.stays,
                             .domain = replica.domain,
                             .down = known_or_assumed(replica.at.line.down),
                             .left = replica.left});
  }
  swarm::level_shares(speeds, view.stages, placements);
  for (std::size_t i = 0; i < placements.size(); ++i) {
    view.replicas[i].speed = placements[i].share * speeds[placements[i].agent];
    view.replicas[i].shares =
        std::count_if(placements.begin(), placements.end(), [&](const swarm::Placement& p) {
          return p.agent == placements[i].agent;
        }) > 1;
  }
}

// The smallest capacity of a stage when `without` has ended; none when its stage then has fewer
// than min_replicas that serve.
std::optional<double> weakest_without(const PlacementInput& input, ReplicaId without) {
  PlacementInput rest = input;
  const auto ended = std::find_if(rest.live.begin(), rest.live.end(),
                                  [&](const PlacedReplica& r) { return r.id == without; });
  const StageIndex stage = ended->stage;
  rest.live.erase(ended);
  const auto serving = std::count_if(rest.live.begin(), rest.live.end(), [&](const auto& r) {
    return r.stage == stage && !r.loading && !r.leaving;
  });
  if (serving < min_replicas(input.spec)) return std::nullopt;
  const auto capacity = swarm::stage_capacity(rebalance_view(rest));
  return *std::min_element(capacity.begin(), capacity.end());
}

}  // namespace

PlacementDecision decide_placement(const PlacementInput& input) {
  const swarm::CostModel model(input.spec, swarm::cost_options(input.spec), input.ends);
  const bool starts_anew = input.cut.size() > 1 && input.live.empty();
  PlacementDecision decision =
      input.cut.empty() || starts_anew ? cut_and_place(input, model) : fill_cut(input, model);
  decision.quota = input.quota;
  decision.withheld = input.withheld;
  decision.forbidden = input.forbidden;
  decision.forbidden_why = input.forbidden_why;
  decision.cordoned = input.cordoned;
  decision.loaded = loaded_devices(input);
  decision.forecast.speeds_assumed = count_assumed_speeds(input, decision);
  return decision;
}

bool is_worth_recut(const PlacementDecision& kept, const PlacementDecision& other) {
  if (other.reason != PlacementReason::kPlaced || other.cut == kept.cut) return false;
  if (kept.reason != PlacementReason::kPlaced) return true;
  const double now = kept.forecast.tokens_per_s;
  return now > 0 && other.forecast.tokens_per_s >= kMuchBetter * now;
}

std::vector<LoadedDevice> loaded_devices(const PlacementInput& input) {
  std::vector<LoadedDevice> loaded;
  for (const FreeDevice& device : input.free) {
    if (device.foreign <= 0 || loaded.size() >= kLoadedDevicesMax) continue;
    loaded.push_back({device.agent, device.device, device.foreign});
  }
  return loaded;
}

swarm::RebalanceView rebalance_view(const PlacementInput& input) {
  SHOAL_CHECK(!input.cut.empty());
  const swarm::CostModel model(input.spec, swarm::cost_options(input.spec), input.ends);
  const auto microbatch_tokens =
      static_cast<double>(input.spec.train.microbatch * input.spec.model.context);
  std::vector<double> microbatch_flops;
  for (const UnitRange range : input.cut) {
    microbatch_flops.push_back(model.flops(range) * microbatch_tokens);
  }
  const StageRates rates = stage_rates(input.live, microbatch_flops);
  swarm::RebalanceView view;
  view.has_trained = input.has_trained;
  for (const UnitRange range : input.cut) {
    const double efficiency = rates.efficiency[view.stages.size()];
    view.stages.push_back({model.flops(range) / efficiency, model.memory(range)});
    view.state.push_back(model.state_bytes(range));
    view.sources.push_back(sources_of(input, static_cast<StageIndex>(view.sources.size())));
  }
  add_replicas(input, rates.gflops, view);
  return view;
}

Forecast forecast_now(const PlacementInput& input) {
  if (input.cut.empty() || mean_gflops(input) <= 0 || input.live.size() > kForecastMax) return {};
  const swarm::CostModel model(input.spec, swarm::cost_options(input.spec), input.ends);
  const swarm::RebalanceView view = rebalance_view(input);
  std::vector<PlannedDevice> devices;
  std::vector<swarm::Placement> placed;
  for (const PlacedReplica& replica : input.live) {
    if (replica.leaving) continue;
    const auto s = static_cast<std::size_t>(replica.stage);
    const double seen = model.flops(input.cut[s]) / view.stages[s].work;  // of what is promised
    const double speed = view.replicas[devices.size()].speed * seen;
    placed.push_back({static_cast<std::int32_t>(devices.size()), replica.stage, 1});
    devices.push_back({replica.agent, speed, replica.memory, replica.domain, replica.at});
  }
  for (StageIndex s = 0; s < static_cast<StageIndex>(input.cut.size()); ++s) {
    if (std::ranges::count(placed, s, &swarm::Placement::stage) == 0) return {};
  }
  const swarm::Cluster cluster = cluster_of(input.spec, devices, input.sites);
  Forecast forecast = forecast_of(input.spec, devices, cluster, placed,
                                  swarm::Forecaster(model, cluster).of(input.cut, placed));
  forecast.speeds_assumed = std::ranges::count_if(input.live, [](const PlacedReplica& replica) {
    return !replica.leaving && !replica.block && replica.service.now <= Duration{};
  });
  return forecast;
}

std::vector<swarm::Move> decide_emergency(const PlacementInput& input) {
  if (input.cut.size() < 2) return {};
  const swarm::RebalanceView view = rebalance_view(input);
  std::vector<swarm::Move> moves = swarm::emergency_moves(view, min_replicas(input.spec));
  std::erase_if(moves, [&](const swarm::Move& move) {
    return somebody_rests(input, view.stages[static_cast<std::size_t>(move.to)].memory);
  });
  return moves;
}

std::optional<ReplicaId> decide_unsharing(const PlacementInput& input) {
  if (input.cut.size() < 2) return std::nullopt;
  const swarm::RebalanceView view = rebalance_view(input);
  const auto capacity = swarm::stage_capacity(view);
  double best = kNextToNothing * *std::min_element(capacity.begin(), capacity.end());
  std::optional<ReplicaId> ended;
  for (const swarm::RebalanceReplica& replica : view.replicas) {
    if (!replica.shares || replica.stays) continue;
    const auto weakest = weakest_without(input, replica.id);
    if (weakest && *weakest >= best) best = *weakest, ended = replica.id;
  }
  return ended;
}

void keep_within_quota(PlacementInput& input, std::int64_t held, Bytes needed) {
  if (input.quota == 0) return;
  const auto can = [&](const FreeDevice& device) {
    return !device.refused && !device.resting && device.memory >= needed;
  };
  std::stable_sort(input.free.begin(), input.free.end(),
                   [&](const FreeDevice& a, const FreeDevice& b) {
                     const bool a_own = !a.holds.empty(), b_own = !b.holds.empty();
                     if (a_own != b_own) return a_own;
                     if (can(a) != can(b)) return can(a);
                     return a.gflops > b.gflops;
                   });
  const auto own = std::count_if(input.free.begin(), input.free.end(),
                                 [](const FreeDevice& device) { return !device.holds.empty(); });
  const std::int64_t room = std::max<std::int64_t>(0, input.quota - held) + own;
  const auto count = static_cast<std::int64_t>(input.free.size());
  input.withheld = std::max<std::int64_t>(0, count - room);
  input.free.resize(static_cast<std::size_t>(std::min(count, room)));
}

std::int64_t max_replicas(const JobSpec& spec) {
  return spec.sync.algorithm == SyncAlgorithm::kNone ? 1 : spec.swarm.max_replicas;
}

std::vector<UnitRange> whole_model(const JobSpec& spec) {
  return {{0, static_cast<std::int32_t>(spec.model.layers) + 2}};
}

std::string explain(const PlacementDecision& decision) {
  switch (decision.reason) {
    case PlacementReason::kPlaced:
    case PlacementReason::kComplete:
      return "";
    case PlacementReason::kNoAgents:
      return "no agent has joined";
    case PlacementReason::kNoFreeDevice:
      return (decision.resting > 0 ? "the free devices are resting after a failure"
              : decision.withheld > 0 || decision.forbidden > 0 || decision.cordoned > 0
                  ? "no device is free for it"
                  : "every device is in use") +
             because_of_quota(decision) + because_forbidden(decision) + because_cordoned(decision);
    case PlacementReason::kNoDeviceFits:
      if (decision.ran_out > 0) return because_it_ran_out(decision);
      return "a replica needs " + readable(decision.needed) + "; the largest free device has " +
             readable(decision.largest);
    case PlacementReason::kAllRefused:
      return "every free device has refused it; the events say why";
    case PlacementReason::kTooFewDevices:
      return std::to_string(decision.missing) + " more devices with " + readable(decision.needed) +
             " are needed for swarm.min_replicas; " +
             std::to_string(decision.fitting - decision.resting) + " such are free" +
             (decision.ran_out > 0 ? "; " + because_it_ran_out(decision) : "") +
             because_of_quota(decision) + because_forbidden(decision) + because_cordoned(decision);
  }
  return "";
}

}  // namespace shoal::coordinator
