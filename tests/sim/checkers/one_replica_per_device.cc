// A device never carries two live replicas, neither in the records nor in its trainer.
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

  void durable(const Record& record, const Tables&) override {
    const auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica == nullptr) return;
    auto& live = recorded_[{replica->agent, replica->device}];
    if (is_terminal(replica->state)) {
      live.erase(replica->id);
    } else {
      live.insert(replica->id);
    }
  }

  void written(const Tables&) override {
    for (const auto& [device, live] : recorded_) {
      if (live.size() < 2) continue;
      violated(to_string(device.first) + " device " + std::to_string(device.second) + " carries " +
               to_string(*live.begin()) + " and " + to_string(*live.rbegin()));
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
  std::map<std::pair<AgentId, std::int32_t>, std::set<ReplicaId>> recorded_;
  std::map<std::string, ReplicaId> running_;
};

}  // namespace

std::unique_ptr<Checker> make_one_replica_per_device(const Checker::Context& context) {
  return std::make_unique<OneReplicaPerDevice>(context);
}

}  // namespace shoal::sim
