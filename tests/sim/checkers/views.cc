// Views of a job are numbered without going back, over restarts too, and one number means one list.
// A replica that is told to train a pipeline got a view before that includes it. It takes its inner
// steps with a view that it got, that includes it, and that is not older than the one before.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

class Views final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "views"; }

  // Views are numbered from where the tables are; replicas that continue there start over.
  void restored(const Tables&, bool) override { last_.clear(), told_.clear(), newest_.clear(); }

  void state_held(const StateHeld& state) override {
    const auto [it, first] = epochs_.emplace(state.replica, state.key.epoch);
    if (first || it->second == state.key.epoch) return;
    it->second = state.key.epoch;
    used_.erase(state.replica);
  }

  void sent(const Sent& s, const Tables& tables) override {
    if (const auto* m = std::get_if<ToReplica<PipelineView>>(&s.message)) {
      note(m->body, tables);
      newest_[m->replica] = stands_in(m->body, m->replica);
    } else if (const auto* m = std::get_if<ToReplica<OpenRound>>(&s.message)) {
      ordered(m->replica, m->body, tables);
    } else if (const auto* m = std::get_if<ToReplica<AbortRound>>(&s.message)) {
      ordered(m->replica, m->body.next, tables);
    } else if (const auto* m = std::get_if<ToReplica<CommitRound>>(&s.message)) {
      if (!m->body.last) ordered(m->replica, m->body.next, tables);
    }
  }

  void stepped(const InnerStep& step) override {
    const std::string who = to_string(step.replica) + " trains with ";
    const PipelineView& view = step.view;
    if (!stands_in(view, step.replica)) return violated(who + "a view that it does not stand in");
    const auto told = lists_.find({view.job, view.number});
    if (told == lists_.end() || !told->second.contains(ids(view))) {
      return violated(who + "a view that was never told");
    }
    std::int64_t& last = used_[step.replica];
    if (view.number < last) violated(who + "an older view than before");
    last = view.number;
  }

 private:
  static std::vector<ReplicaId> ids(const PipelineView& view) {
    std::vector<ReplicaId> list;
    for (const PipelineMember& member : view.members) list.push_back(member.replica);
    return list;
  }
  static bool stands_in(const PipelineView& view, ReplicaId replica) {
    const auto list = ids(view);
    return std::find(list.begin(), list.end(), replica) != list.end();
  }

  void note(const PipelineView& view, const Tables& tables) {
    const std::string what = "view " + std::to_string(view.number) + " of " + to_string(view.job);
    if (tables.jobs.at(view.job).view < view.number) violated(what + " is not in the tables");
    const auto [known, is_new] = told_.emplace(std::pair(view.job, view.number), ids(view));
    if (!is_new) {
      if (known->second != ids(view)) violated(what + " has two lists");
      return;
    }
    std::int64_t& last = last_[view.job];
    if (view.number <= last) violated(what + " after view " + std::to_string(last));
    last = view.number;
    lists_[{view.job, view.number}].insert(ids(view));
  }

  void ordered(ReplicaId replica, const OpenRound& order, const Tables& tables) {
    if (tables.jobs.at(order.key.job).stages.size() < 2) return;
    if (order.from_step == order.to_step) return;  // nothing is trained
    const auto known = tables.replicas.find(replica);
    if (known != tables.replicas.end() &&
        known->second.state == coordinator::ReplicaState::kAbsent) {
      return;  // it is asked whether it is there; its view follows its answer
    }
    const auto view = newest_.find(replica);
    if (view != newest_.end() && view->second) return;
    violated(to_string(replica) + " shall train " + to_text(order.key) + " without a view");
  }

  using Name = std::pair<JobId, std::int64_t>;
  std::map<Name, std::set<std::vector<ReplicaId>>> lists_;
  std::map<Name, std::vector<ReplicaId>> told_;  // by this store
  std::map<JobId, std::int64_t> last_;
  std::map<ReplicaId, bool> newest_;  // whether the newest view it was sent lists it
  std::map<ReplicaId, std::int64_t> used_, epochs_;
};

}  // namespace

std::unique_ptr<Checker> make_views(const Checker::Context& context) {
  return std::make_unique<Views>(context);
}

}  // namespace shoal::sim
