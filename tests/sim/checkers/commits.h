// Checkers of committed rounds, and of the reduces that these consist of: each is shown once, after
// the whole batch that commits it is durable.
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
    for (const auto& round : committed_) {
      if (!is_of_before(round.key, tables)) committed(round, tables);
    }
    committed_.clear();
  }

  // What a crash cut off is not shown any more: its tables are gone.
  void restored(const Tables&, bool) override {
    restored_ = true;
    committed_.clear();
  }

 protected:
  virtual void committed(const coordinator::RoundRecord& round, const Tables& tables) = 0;

 private:
  // A round that was committed before a backup was put back, as its members tell of it.
  bool is_of_before(const RoundKey& key, const Tables& tables) const {
    const auto first = tables.contributions.lower_bound({key, ReplicaId{}});
    return restored_ && (first == tables.contributions.end() || first->first.first != key);
  }

  std::vector<coordinator::RoundRecord> committed_;
  bool restored_ = false;
};

// Not those of groups that gave up.
class ReduceChecker : public CommitChecker {
 public:
  using CommitChecker::CommitChecker;

 protected:
  virtual void reduced(const coordinator::RoundRecord& round, coordinator::ReduceIndex reduce,
                       const Tables& tables) = 0;

  // What `by_member`, a map by (round, attempt, replica), has of the attempt that committed; from
  // the first of its members there. Null: it knows none.
  template <typename Map>
  static const typename Map::mapped_type* find_by_member(const Map& by_member,
                                                         const coordinator::RoundRecord& round,
                                                         coordinator::ReduceIndex reduce,
                                                         const Tables& tables) {
    for (auto it = tables.contributions.lower_bound({round.key, ReplicaId{}});
         it != tables.contributions.end() && it->first.first == round.key; ++it) {
      if (coordinator::reduce_index(it->second) != reduce) continue;
      const std::int32_t attempt = averaging_attempt(reduce_at(round, reduce));
      const auto found = by_member.find({round.key, attempt, it->second.replica});
      if (found != by_member.end()) return &found->second;
    }
    return nullptr;
  }

 private:
  void committed(const coordinator::RoundRecord& round, const Tables& tables) final {
    for (std::size_t reduce = 0; reduce < round.reduces.size(); ++reduce) {
      if (round.reduces[reduce].given_up) continue;
      reduced(round, static_cast<coordinator::ReduceIndex>(reduce), tables);
    }
  }
};

}  // namespace shoal::sim
