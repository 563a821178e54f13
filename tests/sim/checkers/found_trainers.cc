// An agent that starts finds the trainers of the one before: nobody is said to be lost with a
// restart whose trainer lives and holds what it held.
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::ReplicaRecord;
using coordinator::ReplicaState;

class FoundTrainers final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "found_trainers"; }

  // When it is decided: until it is durable the trainer may have died.
  void emitted(const Emitted& e) override {
    for (const auto& effect : e.effects) {
      const auto* persist = std::get_if<coordinator::Persist>(&effect);
      const auto* record =
          persist == nullptr ? nullptr : std::get_if<ReplicaRecord>(&persist->record);
      if (record != nullptr && record->state == ReplicaState::kFailed) look(*record);
    }
  }

 private:
  void look(const ReplicaRecord& replica) {
    if (replica.failure != ReplicaFailure::kAgentRestarted || !lives(replica)) return;
    violated(to_string(replica.id) + " is given up as lost with its agent, and its trainer lives");
  }

  // What it holds may be newer by a commit than what is recorded.
  bool lives(const ReplicaRecord& replica) const {
    for (const RoundNumber newer : {0, 1}) {
      const RoundKey key{replica.job, replica.epoch, replica.held_round + newer};
      for (const Census::Holder& holder : census()->holders(key)) {
        if (holder.replica == replica.id) return true;
      }
    }
    return false;
  }
};

}  // namespace

std::unique_ptr<Checker> make_found_trainers(const Checker::Context& context) {
  return std::make_unique<FoundTrainers>(context);
}

}  // namespace shoal::sim
