// A checker of committed rounds: it is shown each of them once, after the whole batch that commits
// it is durable.
#pragma once

#include <vector>

#include "tests/sim/checker.h"

namespace shoal::sim {

class CommitChecker : public Checker {
 public:
  using Checker::Checker;

  void durable(const Record& record, const Tables& before) override {
    const auto* round = std::get_if<coordinator::RoundRecord>(&record);
    if (round == nullptr || round->state != coordinator::RoundState::kCommitted) return;
    const auto old = before.rounds.find(round->key);
    const bool known =
        old != before.rounds.end() && old->second.state == coordinator::RoundState::kCommitted;
    if (!known) committed_.push_back(*round);
  }

  void written(const Tables& tables) override {
    for (const auto& round : committed_) committed(round, tables);
    committed_.clear();
  }

 protected:
  virtual void committed(const coordinator::RoundRecord& round, const Tables& tables) = 0;

 private:
  std::vector<coordinator::RoundRecord> committed_;
};

}  // namespace shoal::sim
