// A trainer never carries two live replicas, and those that share a device are of one job and of
// different stages. A device that only averages may serve any number of jobs.
#include <map>
#include <set>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::ReplicaRecord;

class OneReplicaPerDevice final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "one_replica_per_device"; }

  void durable(const Record& record, const Tables& before) override {
    const auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica == nullptr || is_reducer(before, *replica)) return;
    auto& live = recorded_[{replica->agent, replica->device}];
    live.erase(replica->id);
    if (!is_terminal(replica->state)) live.emplace(replica->id, *replica);
  }

  void restored(const Tables& tables, bool) override {
    recorded_.clear();
    for (const auto& [id, replica] : tables.replicas) durable(replica, tables);
  }

  void written(const Tables&) override {
    for (const auto& [device, live] : recorded_) {
      std::set<StageIndex> stages;
      for (const auto& [id, replica] : live) {
        const bool fits =
            replica.job == live.begin()->second.job && stages.insert(replica.stage).second;
        if (fits) continue;
        violated(to_string(device.first) + " device " + std::to_string(device.second) +
                 " carries " + to_string(live.begin()->first) + " and " + to_string(id));
      }
    }
  }

  void replica_started(const std::string& device, ReplicaId replica) override {
    const auto [it, first] = running_.emplace(device, replica);
    if (!first && it->second != replica) {
      violated(device + " starts " + to_string(replica) + " while it runs " +
               to_string(it->second));
    }
  }
  void replica_ended(const std::string& device, ReplicaId replica) override {
    const auto it = running_.find(device);
    if (it != running_.end() && it->second == replica) running_.erase(it);
  }
  void device_died(const std::string& device) override { running_.erase(device); }

 private:
  std::map<std::pair<AgentId, std::int32_t>, std::map<ReplicaId, ReplicaRecord>> recorded_;
  std::map<std::string, ReplicaId> running_;
};

}  // namespace

std::unique_ptr<Checker> make_one_replica_per_device(const Checker::Context& context) {
  return std::make_unique<OneReplicaPerDevice>(context);
}

}  // namespace shoal::sim
