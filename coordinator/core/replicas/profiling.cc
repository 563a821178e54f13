// One shape at a time is measured on a device. An entry of VolatileState::measuring lasts until the
// answer or the end of the stream, so a device that owes one is not asked for a second; a job that
// finds it busy with another shape waits for it within its own limit.
#include "coordinator/core/replicas/profiling.h"

#include <algorithm>
#include <string>
#include <utility>

#include "coordinator/core/decisions/block_speeds.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/blocks.h"
#include "coordinator/core/state/machines.h"

namespace shoal::coordinator {
namespace {

bool is_asked(const JobTimers& timers, const DeviceKey& device) {
  return std::ranges::find(timers.blocks_asked, device) != timers.blocks_asked.end();
}

// A free device that the plan may use, and that lacks the block of the job.
bool lacks_block(const Transaction& tx, const JobSpec& spec, const FreeDevice& device) {
  const Presence* presence = tx.state().presence.find(device.agent);
  const bool understands =
      presence != nullptr && presence->connected && presence->protocol >= kMeasuresBlocksSince;
  return understands && !device.block && !device.refused && !device.resting &&
         can_measure_block(spec, device);
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

// The plan waits for its last answer, and is made at once when that is there.
void plan_soon(Transaction& tx, const DeviceKey& device) {
  for (auto& [id, timers] : tx.volatile_state().timers) {
    if (!timers.blocks_due || !is_asked(timers, device)) continue;
    const bool any = std::ranges::any_of(timers.blocks_asked, [&](const DeviceKey& asked) {
      return tx.state().measuring.contains(asked);
    });
    if (!any) timers.planned_at.reset();
  }
}

void tell_not_measured(Transaction& tx, const DeviceKey& device, const std::string& why) {
  tx.event(Severity::kInfo, event_kind::kBlockNotMeasured, {.agent = device.first},
           "device " + std::to_string(device.second) + " of " +
               tx.state().agents.at(device.first).name +
               " has not measured a block of a model, so plans go by its matrix product: " + why);
}

// The wait of a job is over.
void give_up_waiting(Transaction& tx, JobTimers& timers) {
  for (const DeviceKey& device : std::exchange(timers.blocks_asked, {})) {
    if (!tx.state().measuring.contains(device)) continue;
    tx.count_transition("block", "asked", "late");
    tell_not_measured(tx, device, "it has not answered yet");
  }
}

bool is_sane(const BlockTimes& times) {
  return times.block.ns > 0 && times.embedding.ns >= 0 && times.head.ns >= 0;
}

}  // namespace

bool waits_for_blocks(Transaction& tx, JobId id, const PlacementInput& input) {
  const JobSpec& spec = input.spec;
  const Duration limit = tx.options().measure_limit;
  if (!input.cut.empty() || limit.ns == 0 || spec.trainer.kind == TrainerKind::kPython) {
    return false;
  }
  JobTimers& timers = tx.volatile_state().timers[id];
  if (!timers.gathered_at) timers.blocks_due.reset(), timers.blocks_asked.clear();  // begins anew
  if (timers.blocks_due && tx.now() >= *timers.blocks_due) {
    give_up_waiting(tx, timers);
    return false;
  }
  const Digest digest = shape_of(spec);
  std::int64_t awaited = 0;
  for (const FreeDevice& device : input.free) {
    if (!lacks_block(tx, spec, device)) continue;
    awaited += ask(tx, id, spec, {device.agent, device.device}, digest);
  }
  if (awaited == 0) return false;
  if (!timers.blocks_due) timers.blocks_due = tx.now() + limit;
  tx.schedule_wakeup(id, *timers.blocks_due);
  set_reason(tx, id, JobReason::kMeasuring,
             std::to_string(awaited) + (awaited == 1 ? " device measures" : " devices measure") +
                 " a block of its model");
  return true;
}

void on_block_measured(Transaction& tx, AgentId id, const BlockMeasured& measured) {
  const DeviceKey key{id, measured.device};
  const Digest* asked = tx.state().measuring.find(key);
  if (asked == nullptr || *asked != measured.shape) return;
  tx.volatile_state().measuring.erase(key);
  plan_soon(tx, key);
  const std::vector<Device>& devices = tx.state().agents.at(id).devices;
  const auto device = std::ranges::find(devices, measured.device, &Device::index);
  if (device == devices.end()) return;
  const bool good = measured.error.empty() && is_sane(measured.times);
  tx.count_transition("block", "asked", good ? "measured" : "failed");
  if (good) return keep_block(tx.agent(id), *device, measured.shape, measured.times, tx.now());
  tell_not_measured(tx, key, measured.error.empty() ? "it reported no time" : measured.error);
}

void end_measuring(Transaction& tx, AgentId agent) {
  std::vector<DeviceKey> ended;
  for (const auto& [device, shape] : tx.state().measuring) {
    if (device.first == agent) ended.push_back(device);
  }
  for (const DeviceKey& device : ended) {
    tx.volatile_state().measuring.erase(device);
    tx.count_transition("block", "asked", "lost");
    plan_soon(tx, device);
    for (auto& [id, timers] : tx.volatile_state().timers) {
      std::erase(timers.blocks_asked, device);
    }
  }
}

}  // namespace shoal::coordinator
