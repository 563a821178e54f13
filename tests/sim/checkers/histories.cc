// What the same name is given to is the same thing, however often a backup is put back: the ids of
// jobs, agents, replicas and checkpoints, and the keys of committed rounds. A history that was lost
// may have given out names that the tables do not know, and those who remember it live on.
#include <map>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentRecord;
using coordinator::CheckpointRecord;
using coordinator::JobRecord;
using coordinator::ReplicaRecord;
using coordinator::RoundRecord;

class Histories final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "histories"; }

  void durable(const Record& record, const Tables&) override {
    if (const auto* r = std::get_if<JobRecord>(&record)) {
      compare(jobs_, r->id, r->spec.train.seed, to_string(r->id));
    } else if (const auto* r = std::get_if<AgentRecord>(&record)) {
      compare(agents_, r->id, r->uid, to_string(r->id));
    } else if (const auto* r = std::get_if<ReplicaRecord>(&record)) {
      compare(replicas_, r->id, std::pair(r->job, r->store), to_string(r->id));
    } else if (const auto* r = std::get_if<CheckpointRecord>(&record)) {
      compare(checkpoints_, r->id, r->key, to_string(r->id));
    } else if (const auto* r = std::get_if<RoundRecord>(&record)) {
      if (r->state == coordinator::RoundState::kCommitted) judge(*r);
    }
  }

 private:
  void judge(const RoundRecord& round) {
    std::vector<Digest> averages;
    for (const auto& stage : round.reduces) averages.push_back(stage.average);
    compare(rounds_, round.key, averages, to_text(round.key));
  }

  template <typename Name, typename Thing>
  void compare(std::map<Name, Thing>& known, const Name& name, const Thing& thing,
               const std::string& words) {
    const auto [it, first] = known.emplace(name, thing);
    if (!first && it->second != thing) violated(words + " is the name of two things");
  }

  std::map<JobId, std::uint64_t> jobs_;  // by the seed of their training
  std::map<AgentId, std::string> agents_;
  std::map<ReplicaId, std::pair<JobId, std::uint64_t>> replicas_;
  std::map<CheckpointId, RoundKey> checkpoints_;
  std::map<RoundKey, std::vector<Digest>> rounds_;  // by what was averaged
};

}  // namespace

std::unique_ptr<Checker> make_histories(const Checker::Context& context) {
  return std::make_unique<Histories>(context);
}

}  // namespace shoal::sim
