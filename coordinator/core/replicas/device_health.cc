#include "coordinator/core/replicas/device_health.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/state/health_record.h"

namespace shoal::coordinator {
namespace {

constexpr std::size_t kReasonsMax = 4;  // of a cordon; the first ones stay

std::string name_of(const AgentRecord& agent, const Device& device) {
  return "device " + std::to_string(device.index) + " (" + device.uuid + ") of " + agent.name;
}

bool is_lost(const State& state, AgentId agent, const Device& device) {
  const DeviceFacts* facts = state.device_facts.find({agent, device.uuid});
  return facts != nullptr && facts->answer == DeviceAnswer::kLost;
}

// The only GPU of a host is no host's worth of them.
bool has_lost_all(const State& state, const AgentRecord& agent) {
  std::int64_t gpus = 0;
  for (const Device& device : agent.devices) {
    if (device.kind != DeviceKind::kCuda) continue;
    if (!is_lost(state, agent.id, device)) return false;
    ++gpus;
  }
  return gpus > 1;
}

bool is_of(const DeviceRefusal& refusal, std::int32_t device) {
  return refusal.kind == DeviceRefusalKind::kUnhealthy && refusal.device == device;
}

// Cordons the device, or says why it may not.
void cordon(Transaction& tx, AgentId id, const Device& device, const FaultSeen& seen) {
  const AgentRecord& agent = tx.state().agents.at(id);
  const Cordons cordons = count_cordons(tx.state(), {});
  const bool may = cordons.may_add() || is_cordoned(agent, device.index, {});
  const std::string end = may ? "it gets no new replica, and a running one is released after the "
                                "round; " +
                                    what_ends(seen.fault, agent.name)
                              : what_is_not_cordoned(agent, cordons);
  tx.event(Severity::kWarning, event_kind::kDeviceUnhealthy, {.agent = id},
           name_of(agent, device) + " is unhealthy: " + joined(seen.reasons) + "; " + end);
  if (!may) return;
  DeviceRefusal refusal{.device = device.index, .needed = Bytes(), .at = tx.now()};
  refusal.kind = DeviceRefusalKind::kUnhealthy;
  refusal.uuid = device.uuid;
  refusal.reasons = seen.reasons;
  refusal.fault = seen.fault;
  tx.agent(id).refusals.push_back(std::move(refusal));
  tx.note({NoteDecision::Kind::kCordonDevice, id, device.index, device.uuid, joined(seen.reasons)});
}

void change_fault(Transaction& tx, AgentId id, const Device& device, const FaultSeen& seen) {
  AgentRecord& agent = tx.agent(id);
  for (DeviceRefusal& refusal : agent.refusals) {
    if (!is_of(refusal, device.index)) continue;
    refusal.fault = seen.fault;
    if (refusal.reasons.size() < kReasonsMax)
      std::ranges::copy(seen.reasons, std::back_inserter(refusal.reasons));
  }
  tx.event(Severity::kWarning, event_kind::kDeviceUnhealthy, {.agent = id},
           name_of(agent, device) + " stays cordoned: " + joined(seen.reasons) + "; " +
               what_ends(seen.fault, agent.name));
}

void end_cordon(Transaction& tx, AgentId id, const Device& device) {
  std::erase_if(tx.agent(id).refusals,
                [&](const DeviceRefusal& refusal) { return is_of(refusal, device.index); });
  tx.note({NoteDecision::Kind::kUncordonDevice, id, device.index, device.uuid,
           "its driver reports no fault any more"});
  tx.event(Severity::kInfo, event_kind::kDeviceHealthy, {.agent = id},
           name_of(tx.state().agents.at(id), device) +
               " is back in service: its driver reports no fault any more");
}

void judge(Transaction& tx, AgentId id, const Device& device, const DeviceFacts* before,
           const DeviceSample& now) {
  const AgentRecord& agent = tx.state().agents.at(id);
  const DeviceRefusal* cordoned = unhealthy_of(agent, device.index);
  if (cordoned != nullptr) {
    const FaultSeen next = fault_after(cordoned->fault, before, now);
    if (next.fault == cordoned->fault) return;
    if (next.fault != DeviceFault::kNone) return change_fault(tx, id, device, next);
    end_cordon(tx, id, device);
  }
  const FaultSeen seen = new_fault(before, now, tx.now() - tx.state().known_until);
  const bool of_host = seen.fault == DeviceFault::kLost && has_lost_all(tx.state(), agent);
  if (seen.fault != DeviceFault::kNone && !of_host) cordon(tx, id, device, seen);
}

// A report with news for decisions.
struct Change {
  Device device;
  std::optional<DeviceFacts> before;
  DeviceFacts after;
  const DeviceSample* now;
};

// Most reports tell of load and heat alone. Nothing follows from the same facts again, unless the
// device is cordoned: what a cordon ends with is read from the report.
std::optional<Change> change_of(const State& state, const DeviceUuid& key, const Device& device,
                                const DeviceSample& sample) {
  const DeviceFacts* before = state.device_facts.find(key);
  DeviceFacts after = facts_after(before, sample);
  const bool is_cordoned = unhealthy_of(state.agents.at(key.first), device.index) != nullptr;
  if (before != nullptr && *before == after && !is_cordoned) return std::nullopt;
  return Change{device, before == nullptr ? std::nullopt : std::optional(*before), std::move(after),
                &sample};
}

void note_foreign_load(Transaction& tx, const DeviceUuid& key, const DeviceSample& sample) {
  FlatMap<DeviceUuid, ForeignLoad>& loads = tx.volatile_state().foreign_loads;
  ForeignLoad* known = loads.find(key);
  const ForeignLoad now = after_sample(known, sample, tx.now());
  known == nullptr ? (void)loads.put(key, now) : (void)(*known = now);
}

void blame_host(Transaction& tx, AgentId id) {
  const AgentRecord& agent = tx.state().agents.at(id);
  tx.event(Severity::kWarning, event_kind::kDevicesLost, {.agent = id},
           "all GPUs of " + agent.name +
               " stopped answering: its container or driver is at fault, so none is cordoned; "
               "restart the container or reload the driver, then restart the agent");
  const auto only_lost = [](const DeviceRefusal& refusal) {
    return refusal.fault == DeviceFault::kLost && refusal.reasons.size() == 1;
  };
  if (std::ranges::none_of(agent.refusals, only_lost)) return;
  for (const DeviceRefusal& refusal : agent.refusals) {
    if (!only_lost(refusal)) continue;
    tx.note({NoteDecision::Kind::kUncordonDevice, id, refusal.device, refusal.uuid,
             "all GPUs of its host stopped answering"});
  }
  std::erase_if(tx.agent(id).refusals, only_lost);
}

// Some answer again, so the others were not lost with the host.
void cordon_still_lost(Transaction& tx, AgentId id) {
  for (const Device& device : std::vector<Device>(tx.state().agents.at(id).devices)) {
    const bool cordoned = unhealthy_of(tx.state().agents.at(id), device.index) != nullptr;
    if (cordoned || !is_lost(tx.state(), id, device)) continue;
    cordon(tx, id, device,
           {DeviceFault::kLost, {"its UUID does not answer, others of its host do"}});
  }
}

}  // namespace

void on_device_samples(Transaction& tx, AgentId id, const std::vector<DeviceSample>& samples) {
  const AgentRecord& agent = tx.state().agents.at(id);
  std::vector<Change> changes;
  for (const DeviceSample& sample : samples) {
    const auto device = std::ranges::find(agent.devices, sample.uuid, &Device::uuid);
    if (sample.uuid.empty() || device == agent.devices.end()) continue;
    const DeviceUuid key{id, sample.uuid};
    note_foreign_load(tx, key, sample);
    if (auto change = change_of(tx.state(), key, *device, sample)) {
      changes.push_back(std::move(*change));
    }
  }
  if (changes.empty()) return;
  const bool had_lost_all = has_lost_all(tx.state(), agent);
  for (const Change& change : changes) {
    tx.volatile_state().device_facts.put({id, change.device.uuid}, change.after);
  }
  const bool has_now = has_lost_all(tx.state(), tx.state().agents.at(id));
  if (has_now && !had_lost_all) blame_host(tx, id);
  for (const Change& change : changes) {
    judge(tx, id, change.device, change.before ? &*change.before : nullptr, *change.now);
  }
  if (had_lost_all && !has_now) cordon_still_lost(tx, id);
}

void note_devices_of_hello(Transaction& tx, AgentId id, const std::vector<Device>& before,
                           bool same_process) {
  FlatMap<DeviceUuid, DeviceFacts>& facts = tx.volatile_state().device_facts;
  const AgentRecord& agent = tx.state().agents.at(id);
  for (const Device& device : before) {
    if (device.uuid.empty()) continue;
    tx.volatile_state().foreign_loads.erase({id, device.uuid});  // the new session tells it anew
    if (std::ranges::count(agent.devices, device.uuid, &Device::uuid) == 0) {
      facts.erase({id, device.uuid});
      if (device.kind != DeviceKind::kCuda) continue;  // an operator lends fewer processors
      tx.event(Severity::kWarning, event_kind::kDevicesLost, {.agent = id},
               name_of(agent, device) +
                   " is not there any more; what is stored of it waits for its return");
    } else if (DeviceFacts* known = facts.find({id, device.uuid}); known && !same_process) {
      if (known->errors) known->errors->xids.clear();
    }
  }
}

}  // namespace shoal::coordinator
