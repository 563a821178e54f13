// Checkers that remember something of each replica: what they know of it is forgotten when it
// starts over, in a trainer that loads its state or in another epoch. After a backup was put back
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
    epochs_.erase(replica);
    begins_anew(replica);
  }
  void state_held(const StateHeld& state) override {
    const auto [it, first] = epochs_.emplace(state.replica, state.key.epoch);
    if (first || it->second == state.key.epoch) return;
    it->second = state.key.epoch;
    begins_anew(state.replica);
  }

 protected:
  virtual void begins_anew(ReplicaId replica) = 0;

 private:
  std::map<ReplicaId, std::int64_t> epochs_;
};

}  // namespace shoal::sim
