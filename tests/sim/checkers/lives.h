// Checkers that remember something of each replica: what they know of it is forgotten when it
// begins anew, in a trainer that loads its state or in another lineage. After a backup was put back
// one id may be given twice.
#pragma once

#include <map>
#include <string>

#include "tests/sim/checker.h"

namespace shoal::sim {

class LifeChecker : public Checker {
 public:
  using Checker::Checker;

  void replica_started(const std::string&, ReplicaId replica) override {
    lineages_.erase(replica);
    begins_anew(replica);
  }
  void state_held(const StateHeld& state) override {
    const auto [it, first] = lineages_.emplace(state.replica, state.key.lineage);
    if (first || it->second == state.key.lineage) return;
    it->second = state.key.lineage;
    begins_anew(state.replica);
  }

 protected:
  virtual void begins_anew(ReplicaId replica) = 0;

 private:
  std::map<ReplicaId, std::int64_t> lineages_;
};

}  // namespace shoal::sim
