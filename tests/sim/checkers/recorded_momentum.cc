// The outer momentum that the records name, of a job, a replica or a checkpoint, is the one that
// replicas of that round really hold. Sharded momentum has no digest there; in groups each replica
// has its own, and only its own record is compared.
#include <map>
#include <tuple>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::CheckpointRecord;
using coordinator::JobRecord;
using coordinator::ReplicaRecord;

class RecordedMomentum final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "recorded_momentum"; }

  // A job that the backup does not know may give its name to another one.
  void restored(const Tables& tables, bool forgotten) override {
    std::erase_if(held_, [&](const auto& entry) {
      return forgotten || !tables.jobs.contains(std::get<RoundKey>(entry.first).job);
    });
  }

  void state_held(const StateHeld& state) override {
    if (!state.digests.momentum || is_tainted(state.replica)) return;
    held_.emplace(std::tuple(state.key, state.stage, state.own ? state.replica : ReplicaId()),
                  state.digests.momentum);
  }

  void durable(const Record& record, const Tables&) override {
    if (const auto* job = std::get_if<JobRecord>(&record)) {
      const RoundKey key{job->id, job->epoch, job->committed_round};
      compare_all(to_string(job->id), key, job->stages);
    } else if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record)) {
      compare_all(to_string(checkpoint->id), checkpoint->key, checkpoint->parts);
    } else if (const auto* replica = std::get_if<ReplicaRecord>(&record)) {
      if (replica->held_round < 0 || is_tainted(replica->id)) return;
      const RoundKey key{replica->job, replica->epoch, replica->held_round};
      for (const ReplicaId owner : {ReplicaId(), replica->id}) {
        compare(to_string(replica->id), {key, replica->stage, owner}, replica->momentum);
      }
    }
  }

 private:
  using Name = std::tuple<RoundKey, StageIndex, ReplicaId>;

  template <typename Stages>
  void compare_all(const std::string& who, const RoundKey& key, const Stages& stages) {
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      compare(who, {key, static_cast<StageIndex>(stage), ReplicaId()}, stages[stage].momentum);
    }
  }

  void compare(const std::string& who, const Name& of, const Digest& momentum) {
    const auto held = held_.find(of);
    if (!momentum || held == held_.end() || held->second == momentum) return;
    violated(who + " names another momentum of " + to_text(std::get<RoundKey>(of)) + " stage " +
             std::to_string(std::get<StageIndex>(of)) + " than replicas hold");
  }

  std::map<Name, Digest> held_;  // no owner: all of them
};

}  // namespace

std::unique_ptr<Checker> make_recorded_momentum(const Checker::Context& context) {
  return std::make_unique<RecordedMomentum>(context);
}

}  // namespace shoal::sim
