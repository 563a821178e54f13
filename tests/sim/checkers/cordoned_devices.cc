// A device that the coordinator has cordoned, because replicas kept failing there or its driver
// reported a fault, gets no replica before an operator has put its agent back to work, also after a
// restart of the coordinator. The coordinator cordons at most a quarter of all devices.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentRecord;
using coordinator::AgentState;
using coordinator::AgentVerb;
using coordinator::DeviceRefusal;
using coordinator::DeviceRefusalKind;
using coordinator::ReplicaRecord;
using coordinator::ReplicaState;

class CordonedDevices final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "cordoned_devices"; }

  void commanded(AgentId agent, AgentVerb verb) override {
    if (verb == AgentVerb::kUncordon) asked_.insert(agent);
  }

  void restored(const Tables& tables, bool) override {
    cordoned_.clear(), asked_.clear(), uuids_.clear();
    for (const auto& [id, agent] : tables.agents) note(agent);
  }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* agent = std::get_if<AgentRecord>(&record)) {
      check_share(*agent, before);
      note(*agent);
    }
    const auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica == nullptr || before.replicas.contains(replica->id)) return;
    if (replica->state == ReplicaState::kServing) return;  // a restored job has found it there
    if (!cordoned_.contains({replica->agent, uuids_[{replica->agent, replica->device}]})) return;
    violated(to_string(replica->id) + " is placed on the cordoned device " +
             std::to_string(replica->device) + " of " + to_string(replica->agent));
  }

 private:
  using Card = std::pair<AgentId, std::string>;  // by its UUID, which another host does not have

  static bool is_cordon(const DeviceRefusal& refusal) {
    return refusal.kind != DeviceRefusalKind::kMemory && refusal.code.empty();
  }

  static bool is_cordoned(const AgentRecord& agent, std::int32_t device) {
    return std::ranges::any_of(agent.refusals, [&](const DeviceRefusal& refusal) {
      return is_cordon(refusal) && refusal.device == device;
    });
  }

  // Where one more device of this agent is cordoned than before. An agent may be gone since the
  // decision, so its devices count.
  void check_share(const AgentRecord& agent, const Tables& before) {
    const auto known = before.agents.find(agent.id);
    if (known == before.agents.end()) return;
    std::int64_t devices = 0, cordoned = 0, added = 0;
    const auto count = [&](const AgentRecord& one) {
      for (const shoal::Device& device : one.devices) {
        if (device.kind == DeviceKind::kReducer) continue;
        ++devices;
        cordoned += one.state != AgentState::kGone && is_cordoned(one, device.index);
      }
    };
    for (const auto& [id, other] : before.agents) count(id == agent.id ? agent : other);
    for (const shoal::Device& device : agent.devices) {
      added += is_cordoned(agent, device.index) && !is_cordoned(known->second, device.index);
    }
    if (added == 0 || agent.devices != known->second.devices) return;
    if (cordoned <= std::max<std::int64_t>(1, devices / 4)) return;
    violated(std::to_string(cordoned) + " of " + std::to_string(devices) + " devices are cordoned");
  }

  void note(const AgentRecord& agent) {
    const bool ended = std::ranges::none_of(agent.refusals, is_cordon);
    if (ended && asked_.erase(agent.id) > 0) {
      std::erase_if(cordoned_, [&](const Card& card) { return card.first == agent.id; });
    }
    for (const shoal::Device& device : agent.devices) {
      uuids_[{agent.id, device.index}] = device.uuid;
    }
    for (const DeviceRefusal& refusal : agent.refusals) {  // without a UUID until the next hello
      if (!is_cordon(refusal)) continue;
      const bool named = !refusal.uuid.empty();
      cordoned_.insert({agent.id, named ? refusal.uuid : uuids_[{agent.id, refusal.device}]});
    }
  }

  std::set<Card> cordoned_;
  std::map<std::pair<AgentId, std::int32_t>, std::string> uuids_;
  std::set<AgentId> asked_;  // an operator put them back since their last cordon
};

}  // namespace

std::unique_ptr<Checker> make_cordoned_devices(const Checker::Context& context) {
  return std::make_unique<CordonedDevices>(context);
}

}  // namespace shoal::sim
