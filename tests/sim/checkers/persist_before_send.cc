// Nothing is said before it is durable: when a message leaves, every record that its step (or an
// earlier one) asked to persist before it is in the tables; and the tables hold what the message
// speaks of. A crash leaves all records of one step, or none.
#include <deque>

#include "coordinator/core/state/state.h"
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::RoundState;

class PersistBeforeSend final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "persist_before_send"; }

  void coordinator_started() override {
    if (!waiting_.empty() && waiting_.front().step == durable_of_) {
      violated("of the records of one step only some are durable");
    }
    waiting_.clear();
    durable_of_ = -1;
  }

  void emitted(const Emitted& e) override {
    for (std::size_t i = 0; i < e.effects.size(); ++i) {
      if (const auto* persist = std::get_if<coordinator::Persist>(&e.effects[i])) {
        waiting_.push_back({e.step, i, persist->record});
      }
    }
  }

  void durable(const Record& record, const Tables&) override {
    if (waiting_.empty() || waiting_.front().record != record) return;
    durable_of_ = waiting_.front().step;
    waiting_.pop_front();
  }

  void sent(const Sent& s, const Tables& tables) override {
    if (!waiting_.empty()) {
      const Waiting& first = waiting_.front();
      if (first.step < s.step || (first.step == s.step && first.index < s.index)) {
        return violated("a message to " + s.host + " left before a record that precedes it");
      }
    }
    if (const auto* assign = std::get_if<Assign>(&s.message)) {
      if (!tables.replicas.contains(assign->replica)) unknown(s, to_string(assign->replica));
    } else if (const auto* plan = std::get_if<ToReplica<ReducePlan>>(&s.message)) {
      const auto it = tables.rounds.find(plan->body.key);
      const auto* reduce =
          it == tables.rounds.end() ? nullptr : find(tables, it->second, plan->replica);
      if (reduce == nullptr || reduce->attempt < plan->body.attempt) {
        unknown(s, "the attempt of " + to_text(plan->body.key));
      }
    } else if (const auto* commit = std::get_if<ToReplica<CommitRound>>(&s.message)) {
      const auto it = tables.rounds.find(commit->body.key);
      const auto* reduce =
          it == tables.rounds.end() ? nullptr : find(tables, it->second, commit->replica);
      if (reduce == nullptr || it->second.state != RoundState::kCommitted ||
          reduce->average != commit->body.average) {
        unknown(s, "the commit of " + to_text(commit->body.key));
      }
    }
  }

 private:
  struct Waiting {
    std::int64_t step;
    std::size_t index;
    Record record;
  };
  // The reduce of this replica.
  static const coordinator::Reduce* find(const Tables& tables,
                                         const coordinator::RoundRecord& round, ReplicaId replica) {
    const auto contribution = tables.contributions.find({round.key, replica});
    if (contribution == tables.contributions.end()) return nullptr;
    return &coordinator::reduce_of(round, contribution->second);
  }
  void unknown(const Sent& s, const std::string& what) {
    violated("a message to " + s.host + " speaks of " + what + ", which is not in the tables");
  }
  std::deque<Waiting> waiting_;
  std::int64_t durable_of_ = -1;  // the step of the newest durable record
};

}  // namespace

std::unique_ptr<Checker> make_persist_before_send(const Checker::Context& context) {
  return std::make_unique<PersistBeforeSend>(context);
}

}  // namespace shoal::sim
