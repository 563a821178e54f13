// An agent that the operator has taken out of service gets no new replica before it is put back. A
// replica that is released for a drain has finished its part: whatever round it was in is
// committed.
#include <set>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentVerb;
using coordinator::ContributionState;
using coordinator::ReplicaRecord;

class Drains final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "drains"; }

  void commanded(AgentId agent, AgentVerb verb) override {
    if (verb == AgentVerb::kUncordon) {
      out_of_work_.erase(agent);
    } else {
      out_of_work_.insert(agent);
    }
  }

  void restored(const Tables& tables, bool) override {
    out_of_work_.clear();
    for (const auto& [id, agent] : tables.agents) {
      if (agent.cordoned) out_of_work_.insert(id);
    }
  }

  void durable(const Record& record, const Tables& before) override {
    const auto* replica = std::get_if<ReplicaRecord>(&record);
    if (replica == nullptr || before.replicas.contains(replica->id)) return;
    // A restored database takes over what runs there, if only to release it: that is no assignment.
    const bool taken_over = replica->state == coordinator::ReplicaState::kServing ||
                            replica->state == coordinator::ReplicaState::kReleased;
    if (out_of_work_.contains(replica->agent) && !taken_over) {
      violated(to_string(replica->agent) + " is cordoned and gets " + to_string(replica->id));
    }
  }

  void sent(const Sent& sent, const Tables& tables) override {
    const auto* release = std::get_if<Release>(&sent.message);
    if (release == nullptr || release->reason != ReleaseReason::kDraining) return;
    for (const auto& [key, contribution] : tables.contributions) {
      const bool done = contribution.state == ContributionState::kCommitted ||
                        contribution.state == ContributionState::kRejected ||
                        contribution.state == ContributionState::kLate ||
                        contribution.state == ContributionState::kFollowed ||
                        contribution.state == ContributionState::kKept ||
                        contribution.state == ContributionState::kServed ||
                        (contribution.reducer && contribution.member_index < 0);  // not counted on
      const auto job = tables.jobs.find(key.first.job);  // its past epochs are over
      const bool past = job == tables.jobs.end() || job->second.epoch != key.first.epoch;
      if (key.second != release->replica || done || past) continue;
      violated(to_string(release->replica) + " is drained and leaves round " + to_text(key.first) +
               " as " + to_string(contribution.state));
    }
  }

 private:
  std::set<AgentId> out_of_work_;
};

}  // namespace

std::unique_ptr<Checker> make_drains(const Checker::Context& context) {
  return std::make_unique<Drains>(context);
}

}  // namespace shoal::sim
