// When the faults have stopped and everything is connected again, every live job commits a round or
// ends with a reason within a bounded time, and in the end all are over. A job that lacks replicas
// because hosts have other data continues when somebody mends that; until then it says so. One that
// waits for devices behind jobs of higher priority gets its turn when they are over.
#include <algorithm>
#include <map>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::JobPhase;
using coordinator::JobReason;
using coordinator::JobRecord;

class Liveness final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "liveness"; }

  void healed(const Tables& tables) override {
    for (const auto& [id, job] : tables.jobs) at_heal_[id] = {job.epoch, job.committed_round};
  }

  void progress_due(const Tables& tables) override {
    for (const auto& [id, job] : tables.jobs) {
      const Mark now{job.epoch, job.committed_round};
      const auto then = at_heal_.find(id);
      const bool moved = then == at_heal_.end() ? job.committed_round > 0 : now.moved(then->second);
      if (is_terminal(job.phase) || job.phase == JobPhase::kFinalizing || moved) continue;
      if (waits_for_data(job) || waits_for_higher(job, tables)) continue;
      violated(to_string(id) + " commits nothing: " + words(job));
    }
  }

  void completion_due(const Tables& tables) override {
    for (const auto& [id, job] : tables.jobs) {
      if (waits_for_data(job)) continue;
      if (!is_terminal(job.phase)) {
        violated(to_string(id) + " does not end: " + words(job));
      } else if (job.reason == JobReason::kNone) {
        violated(to_string(id) + " ended without a reason: " + words(job));
      }
    }
  }

 private:
  struct Mark {
    std::int64_t epoch;
    RoundNumber round;
    bool moved(const Mark& then) const {
      return epoch == then.epoch ? round > then.round : round > 0;
    }
  };
  bool waits_for_data(const JobRecord& job) const {
    return job.reason == JobReason::kDataInvalid &&
           options().mean_of(Fault::kOtherData) != Duration();
  }
  // It gets devices when those of higher priority are over.
  static bool waits_for_higher(const JobRecord& job, const Tables& tables) {
    const bool waits = job.phase == JobPhase::kQueued || job.phase == JobPhase::kGathering ||
                       job.phase == JobPhase::kStalled;
    return waits && std::ranges::any_of(tables.jobs, [&](const auto& entry) {
             const JobRecord& other = entry.second;
             return !is_terminal(other.phase) && other.priority > job.priority;
           });
  }
  static std::string words(const JobRecord& job) {
    return std::string(to_string(job.phase)) + ", " + to_string(job.reason) + ", round " +
           std::to_string(job.committed_round);
  }
  std::map<JobId, Mark> at_heal_;
};

}  // namespace

std::unique_ptr<Checker> make_liveness(const Checker::Context& context) {
  return std::make_unique<Liveness>(context);
}

}  // namespace shoal::sim
