// A reducer averages and does nothing else: it is told of plans only, each of which says what it is
// and gives it no weight, and it never holds a state. A replica that trains is never called a
// reducer.
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

class Reducers final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "reducers"; }

  void durable(const Record& record, const Tables& before) override {
    const auto* replica = std::get_if<coordinator::ReplicaRecord>(&record);
    if (replica == nullptr || replica->held_round < 0 || !is_reducer(before, *replica)) return;
    violated(to_string(replica->id) + " is a reducer and holds a state");
  }

  void sent(const Sent& sent, const Tables& tables) override {
    if (const auto* plan = std::get_if<ToReplica<ReducePlan>>(&sent.message)) {
      return check(plan->body, tables);
    }
    const ReplicaId told = told_to_train(sent.message);
    const auto replica = tables.replicas.find(told);
    if (replica == tables.replicas.end() || !is_reducer(tables, replica->second)) return;
    violated(to_string(told) + " is a reducer and told to train");
  }

 private:
  static ReplicaId told_to_train(const ToAgent& message) {
    if (const auto* m = std::get_if<ToReplica<OpenRound>>(&message)) return m->replica;
    if (const auto* m = std::get_if<ToReplica<CommitRound>>(&message)) return m->replica;
    if (const auto* m = std::get_if<ToReplica<AbortRound>>(&message)) return m->replica;
    if (const auto* m = std::get_if<ToReplica<WriteCheckpoint>>(&message)) return m->replica;
    return {};
  }

  void check(const ReducePlan& plan, const Tables& tables) {
    for (const ReduceMember& member : plan.members) {
      const auto replica = tables.replicas.find(member.replica);
      if (replica == tables.replicas.end()) continue;
      const std::string who = to_string(member.replica) + " in the plan of " + to_text(plan.key);
      if (is_reducer(tables, replica->second) != member.reducer) {
        return violated(who + (member.reducer ? " is called a reducer" : " is a reducer"));
      }
      const bool fits = member.weight == 0 && plan.topology == Topology::kParamServer;
      if (member.reducer && !fits) return violated(who + " has a weight, or another topology");
    }
  }
};

}  // namespace

std::unique_ptr<Checker> make_reducers(const Checker::Context& context) {
  return std::make_unique<Reducers>(context);
}

}  // namespace shoal::sim
