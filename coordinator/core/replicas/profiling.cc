// One shape at a time is measured on a device. An entry of VolatileState::measuring lasts until the
// answer or the end of the stream, so a device that owes one is not asked for a second; a job that
// finds it busy with another shape waits for it within its own limit.
#include "coordinator/core/replicas/profiling.h"

#include <algorithm>
#include <string>
#include <utility>

#include "coordinator/core/decisions/block_speeds.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/line_probes.h"
#include "coordinator/core/state/blocks.h"
#include "coordinator/core/state/machines.h"

namespace shoal::coordinator {
namespace {

bool is_asked(const JobTimers& timers, const DeviceKey& device) {
  return std::ranges::find(timers.blocks_asked, device) != timers.blocks_asked.end();
}

bool is_asked(const JobTimers& timers, AgentId agent) {
  return std::ranges::find(timers.lines_asked, agent) != timers.lines_asked.end();
}

// A free device that the plan may use, and that lacks the block of the job.
bool lacks_block(const Transaction& tx, const JobSpec& spec, const FreeDevice& device) {
  const Presence* presence = tx.state().presence.find(device.agent);
  const bool understands =
      presence != nullptr && presence->connected && presence->protocol >= kMeasuresBlocksSince;
  // What is measured beside others would count their load for as long as it is kept.
  return understands && !device.block && !device.refused && !device.resting &&
         device.foreign == 0 && can_measure_block(spec, device);
}

// Whether its answer is waited for.
bool ask(Transaction& tx, JobId id, const JobSpec& spec, const DeviceKey& device,
         const Digest& digest) {
  JobTimers& timers = tx.volatile_state().timers[id];
  const Digest* busy = tx.state().measuring.find(device);
  if (is_asked(timers, device)) return busy != nullptr && *busy == digest;
  if (busy != nullptr && *busy != digest) return true;  // asked when that has ended
  timers.blocks_asked.push_back(device);
  if (busy != nullptr) return true;
  tx.volatile_state().measuring.put(device, digest);
  tx.send(device.first,
          MeasureBlock{device.second, block_shape(spec), spec.model.layers, spec.train.batch});
  return true;
}

std::int64_t count_awaited_lines(const State& state, const JobTimers& timers) {
  return std::ranges::count_if(timers.lines_asked,
                               [&](AgentId agent) { return is_line_awaited(state, agent); });
}

bool awaits_anything(const State& state, const JobTimers& timers) {
  return count_awaited_lines(state, timers) > 0 ||
         std::ranges::any_of(timers.blocks_asked, [&](const DeviceKey& asked) {
           return state.measuring.contains(asked);
         });
}

// The plan waits for its last answer, and is made at once when that is there.
template <typename Asked>
void plan_soon(Transaction& tx, const Asked& asked) {
  for (auto& [id, timers] : tx.volatile_state().timers) {
    if (!timers.measures_due || !asked(timers)) continue;
    if (!awaits_anything(tx.state(), timers)) timers.planned_at.reset();
  }
}

void plan_soon_with_block(Transaction& tx, const DeviceKey& device) {
  plan_soon(tx, [&](const JobTimers& timers) { return is_asked(timers, device); });
}

void plan_soon_with_line(Transaction& tx, AgentId agent) {
  plan_soon(tx, [&](const JobTimers& timers) { return is_asked(timers, agent); });
}

// A line is asked for once, whatever comes of it.
void ask_line(Transaction& tx, JobId id, const FreeDevice& device) {
  if (device.refused || device.resting || is_measured_by_peers(device.at.line)) return;
  JobTimers& timers = tx.volatile_state().timers[id];
  if (is_asked(timers, device.agent) || !lacks_line(tx, device.agent)) return;
  timers.lines_asked.push_back(device.agent);
  want_line(tx, device.agent);
}

void tell_not_measured(Transaction& tx, const DeviceKey& device, const std::string& why) {
  tx.event(Severity::kInfo, event_kind::kBlockNotMeasured, {.agent = device.first},
           "device " + std::to_string(device.second) + " of " +
               tx.state().agents.at(device.first).name +
               " has not measured a block of a model, so plans go by its matrix product: " + why);
}

// The wait of a job is over.
void give_up_waiting(Transaction& tx, JobTimers& timers) {
  for (const AgentId agent : std::exchange(timers.lines_asked, {})) {
    if (is_line_awaited(tx.state(), agent)) tx.count_transition("line", "asked", "late");
  }
  for (const DeviceKey& device : std::exchange(timers.blocks_asked, {})) {
    if (!tx.state().measuring.contains(device)) continue;
    tx.count_transition("block", "asked", "late");
    tell_not_measured(tx, device, "it has not answered yet");
  }
}

bool is_sane(const BlockTimes& times) {
  return times.block.ns > 0 && times.embedding.ns >= 0 && times.head.ns >= 0;
}

// "2 devices measure a block of its model, the line of 1 agent is measured"
std::string what_is_measured(std::int64_t blocks, std::int64_t lines) {
  std::string text;
  if (blocks > 0) {
    text = std::to_string(blocks) + (blocks == 1 ? " device measures" : " devices measure") +
           " a block of its model";
  }
  if (lines > 0) {
    text += std::string(text.empty() ? "" : ", ") +
            (lines == 1 ? "the line of " : "the lines of ") + std::to_string(lines) +
            (lines == 1 ? " agent is" : " agents are") + " measured";
  }
  return text;
}

// What `measures_due` is about begins anew with each wait for late devices.
void begin_waiting(JobTimers& timers) {
  if (timers.gathered_at) return;
  timers.measures_due.reset();
  timers.blocks_asked.clear(), timers.lines_asked.clear();
}

}  // namespace

bool waits_for_measurements(Transaction& tx, JobId id, const PlacementInput& input) {
  const JobSpec& spec = input.spec;
  const Duration limit = tx.options().measure_limit;
  if (!input.cut.empty() || limit.ns == 0) return false;
  JobTimers& timers = tx.volatile_state().timers[id];
  begin_waiting(timers);
  if (timers.measures_due && tx.now() >= *timers.measures_due) {
    give_up_waiting(tx, timers);
    return false;
  }
  if (!timers.measures_due) timers.measures_due = tx.now() + limit;
  const Digest digest = shape_of(spec);
  const bool is_program = spec.trainer.kind == TrainerKind::kPython;  // it has blocks of its own
  std::int64_t blocks = 0;
  for (const FreeDevice& device : input.free) {
    ask_line(tx, id, device);
    if (is_program || !lacks_block(tx, spec, device)) continue;
    blocks += ask(tx, id, spec, {device.agent, device.device}, digest);
  }
  const std::int64_t lines = count_awaited_lines(tx.state(), timers);
  if (blocks + lines == 0) return false;
  tx.schedule_wakeup(id, *timers.measures_due);
  set_reason(tx, id, JobReason::kMeasuring, what_is_measured(blocks, lines));
  return true;
}

void on_block_measured(Transaction& tx, AgentId id, const BlockMeasured& measured) {
  const DeviceKey key{id, measured.device};
  const Digest* asked = tx.state().measuring.find(key);
  if (asked == nullptr || *asked != measured.shape) return;
  tx.volatile_state().measuring.erase(key);
  plan_soon_with_block(tx, key);
  const std::vector<Device>& devices = tx.state().agents.at(id).devices;
  const auto device = std::ranges::find(devices, measured.device, &Device::index);
  if (device == devices.end()) return;
  const bool good = measured.error.empty() && is_sane(measured.times);
  tx.count_transition("block", "asked", good ? "measured" : "failed");
  if (good) return keep_block(tx.agent(id), *device, measured.shape, measured.times, tx.now());
  tell_not_measured(tx, key, measured.error.empty() ? "it reported no time" : measured.error);
}

void on_host_line_measured(Transaction& tx, const HostLineMeasured& measured) {
  if (const auto agent = keep_line(tx, measured)) plan_soon_with_line(tx, *agent);
}

void end_measuring(Transaction& tx, AgentId agent) {
  drop_line(tx, agent);
  plan_soon_with_line(tx, agent);
  for (auto& [id, timers] : tx.volatile_state().timers) std::erase(timers.lines_asked, agent);
  std::vector<DeviceKey> ended;
  for (const auto& [device, shape] : tx.state().measuring) {
    if (device.first == agent) ended.push_back(device);
  }
  for (const DeviceKey& device : ended) {
    tx.volatile_state().measuring.erase(device);
    tx.count_transition("block", "asked", "lost");
    plan_soon_with_block(tx, device);
    for (auto& [id, timers] : tx.volatile_state().timers) {
      std::erase(timers.blocks_asked, device);
    }
  }
}

}  // namespace shoal::coordinator
