// A device that ran out of memory gets nothing as large again, all its replicas taken together,
// before an operator has put its agent back to work: its agent had told more than there was. A card
// is known by its UUID.
// What the device held is taken from the last batch of records, so that replicas which end in the
// same batch count on neither side.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "swarm/core/plan/cost_model.h"
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentRecord;
using coordinator::AgentVerb;
using coordinator::ReplicaRecord;

class RefusedMemory final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "refused_memory"; }

  void commanded(AgentId agent, AgentVerb verb) override {
    if (verb == AgentVerb::kUncordon) asked_.insert(agent);
  }

  void restored(const Tables&, bool) override {
    refused_.clear(), placed_.clear(), held_.clear(), asked_.clear();
  }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* agent = std::get_if<AgentRecord>(&record)) {
      if (agent->refusals.empty() && asked_.contains(agent->id)) forget(agent->id);
      forget_other_cards(*agent, before);
    }
    const auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica == nullptr) return;
    const Device device{replica->agent, replica->device};
    const auto refused = refused_.find(device);
    if (!before.replicas.contains(replica->id) && refused != refused_.end()) {
      placed_[device] = refused->second;
    }
    const bool failed = replica->state == coordinator::ReplicaState::kFailed;
    if (failed && replica->failure == ReplicaFailure::kOutOfMemory) {
      remember(device, std::max(held_[device], needed(*replica, before)));
    }
  }

  void written(const Tables& tables) override {
    held_.clear();
    for (const auto& [id, replica] : tables.replicas) {
      if (is_terminal(replica.state)) continue;
      held_[{replica.agent, replica.device}] += needed(replica, tables);
    }
    for (const auto& [device, limit] : placed_) {
      if (held_[device] < limit) continue;
      violated(to_string(device.first) + " device " + std::to_string(device.second) + " gets " +
               std::to_string(held_[device]) + " bytes after it ran out of memory with " +
               std::to_string(limit));
    }
    placed_.clear();
  }

 private:
  using Device = std::pair<AgentId, std::int32_t>;

  // 0 while its job is not in the tables.
  std::int64_t needed(const ReplicaRecord& replica, const Tables& tables) {
    auto& [units, bytes] = needed_[{replica.job, replica.stage}];
    const auto job = tables.jobs.find(replica.job);
    const auto stage = static_cast<std::size_t>(replica.stage);
    if (job == tables.jobs.end() || job->second.stages.size() <= stage) return bytes;
    const UnitRange now = job->second.stages[stage].units;
    if (std::exchange(units, now) == now && bytes > 0) return bytes;
    const JobSpec& spec = job->second.spec;
    const swarm::CostModel model(spec, swarm::cost_options(spec));
    return bytes = model.memory(now).n;
  }

  void remember(const Device& device, std::int64_t bytes) {
    const auto [it, is_new] = refused_.emplace(device, bytes);
    if (!is_new) it->second = std::min(it->second, bytes);
  }

  // The agent's folder has moved to another host.
  void forget_other_cards(const AgentRecord& agent, const Tables& before) {
    const auto known = before.agents.find(agent.id);
    if (known == before.agents.end()) return;
    for (const shoal::Device& device : known->second.devices) {
      const auto now = std::ranges::find(agent.devices, device.index, &shoal::Device::index);
      if (now != agent.devices.end() && now->uuid == device.uuid) continue;
      refused_.erase({agent.id, device.index});
    }
  }

  void forget(AgentId agent) {
    std::erase_if(refused_, [agent](const auto& entry) { return entry.first.first == agent; });
  }

  std::map<Device, std::int64_t> held_;  // bytes of live replicas, when the last batch was written
  std::map<Device, std::int64_t> refused_;  // the least with which it ran out
  std::map<Device, std::int64_t> placed_;   // new replicas in this batch, and what was refused then
  std::map<std::pair<JobId, StageIndex>, std::pair<UnitRange, std::int64_t>> needed_;
  std::set<AgentId> asked_;  // an operator put them back at least once
};

}  // namespace

std::unique_ptr<Checker> make_refused_memory(const Checker::Context& context) {
  return std::make_unique<RefusedMemory>(context);
}

}  // namespace shoal::sim
