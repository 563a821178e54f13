// A device that the coordinator has cordoned, because replicas kept failing there, gets no replica
// before an operator has put its agent back to work, also after a restart of the coordinator.
#include <algorithm>
#include <set>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentRecord;
using coordinator::AgentVerb;
using coordinator::DeviceRefusal;
using coordinator::DeviceRefusalKind;
using coordinator::ReplicaRecord;

class CordonedDevices final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "cordoned_devices"; }

  void commanded(AgentId agent, AgentVerb verb) override {
    if (verb == AgentVerb::kUncordon) asked_.insert(agent);
  }

  void restored(const Tables&, bool) override { cordoned_.clear(), asked_.clear(); }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* agent = std::get_if<AgentRecord>(&record)) note(*agent);
    const auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica == nullptr || before.replicas.contains(replica->id)) return;
    if (!cordoned_.contains({replica->agent, replica->device})) return;
    violated(to_string(replica->id) + " is placed on the cordoned device " +
             std::to_string(replica->device) + " of " + to_string(replica->agent));
  }

 private:
  using Device = std::pair<AgentId, std::int32_t>;

  static bool is_cordon(const DeviceRefusal& refusal) {
    return refusal.kind == DeviceRefusalKind::kFailing && refusal.code.empty();
  }

  void note(const AgentRecord& agent) {
    const bool ended = std::ranges::none_of(agent.refusals, is_cordon);
    if (ended && asked_.erase(agent.id) > 0) {
      std::erase_if(cordoned_, [&](const Device& device) { return device.first == agent.id; });
    }
    for (const DeviceRefusal& refusal : agent.refusals) {
      if (is_cordon(refusal)) cordoned_.insert({agent.id, refusal.device});
    }
  }

  std::set<Device> cordoned_;
  std::set<AgentId> asked_;  // an operator put them back since their last cordon
};

}  // namespace

std::unique_ptr<Checker> make_cordoned_devices(const Checker::Context& context) {
  return std::make_unique<CordonedDevices>(context);
}

}  // namespace shoal::sim
