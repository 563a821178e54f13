// A job that is training has min_replicas serving in every stage, or is called stalled (or gets
// them back) within a time that follows from the options. Only replicas count that their trainers
// really hold, whatever the records believe. Time without a running coordinator does not count.
#include <map>
#include <set>
#include <string>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::JobPhase;
using coordinator::ReplicaState;

class Coverage final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "coverage"; }

  void coordinator_started() override { since_.clear(); }
  void coordinator_continued() override { since_.clear(); }

  void replica_started(const std::string& device, ReplicaId replica) override {
    running_[device] = replica;
  }
  void replica_ended(const std::string& device, ReplicaId) override { device_died(device); }
  void device_died(const std::string& device) override {
    running_.erase(device);
    changed_ = true;
  }
  void written(const Tables&) override { changed_ = true; }

  void moment(const Tables& tables) override {
    if (changed_) count(tables);
    changed_ = false;
    for (const auto& [id, since] : since_) {
      if (now() - since > options().coverage_limit()) {
        violated(to_string(id) + " is training with too few replicas and not called stalled");
      }
    }
  }

 private:
  void count(const Tables& tables) {
    std::set<ReplicaId> real;
    for (const auto& [device, replica] : running_) real.insert(replica);
    std::map<std::pair<JobId, StageIndex>, std::int64_t> serving;
    for (const auto& [id, replica] : tables.replicas) {
      const bool serves =
          !is_reducer(tables, replica) &&
          (replica.state == ReplicaState::kServing || replica.state == ReplicaState::kAveraging);
      serving[{replica.job, replica.stage}] += serves && real.contains(id);
    }
    for (const auto& [id, job] : tables.jobs) {
      bool covered = true;
      for (StageIndex stage = 0; stage < static_cast<StageIndex>(job.stages.size()); ++stage) {
        covered &= serving[{id, stage}] >= job.spec.swarm.min_replicas;
      }
      covered |= job.phase != JobPhase::kTraining;
      if (covered) {
        since_.erase(id);
      } else {
        since_.emplace(id, now());
      }
    }
  }

  std::map<std::string, ReplicaId> running_;  // by device
  std::map<JobId, Instant> since_;
  bool changed_ = false;
};

}  // namespace

std::unique_ptr<Checker> make_coverage(const Checker::Context& context) {
  return std::make_unique<Coverage>(context);
}

}  // namespace shoal::sim
