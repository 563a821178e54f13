// No honest agent is recorded as faulty. A contribution is rejected as not finite or as an outlier,
// an agent is charged or quarantined, and a serving replica fails over its digest, only if the
// replica reported values that are not finite, a bit of its memory has changed, or it sent or
// averaged something else than it should. A source of state is named only if it gave a joiner wrong
// bytes. With ddp, whose state changes at every step, equally many replicas may contradict each
// other without a proof: then all of them fail.
#include <set>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/health_record.h"
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentRecord;
using coordinator::ContributionRecord;
using coordinator::EventRecord;
using coordinator::RejectReason;
using coordinator::ReplicaRecord;
using coordinator::ReplicaState;

class HonestAgents final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "honest_agents"; }

  void reported(const Reported& r) override {
    if (r.report.nonfinite > 0) faulty_.insert(r.replica);
  }

  void lied(const Lied& l) override { faulty_.insert(l.replica); }

  void gave_falsely(const GaveFalsely& g) override { gave_.insert(g.replica); }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* contribution = std::get_if<ContributionRecord>(&record)) judge(*contribution);
    if (const auto* replica = std::get_if<ReplicaRecord>(&record)) judge(*replica, before);
    if (const auto* agent = std::get_if<AgentRecord>(&record)) judge(*agent, before);
    if (const auto* event = std::get_if<EventRecord>(&record)) judge(*event);
  }

 private:
  bool is_faulty(ReplicaId replica) const {
    return faulty_.contains(replica) || is_tainted(replica);
  }

  void judge(const EventRecord& event) {
    const bool named = event.kind == coordinator::event_kind::kSourceRefused;
    if (!named || gave_.contains(event.replica) || is_tainted(event.replica)) return;
    violated(to_string(event.replica) + " gave what it should and is named: " + event.message);
  }

  void judge(const ContributionRecord& contribution) {
    const RejectReason reason = contribution.reject_reason;
    if (!coordinator::is_violation(reason) || is_faulty(contribution.replica)) return;
    violated(to_string(contribution.replica) + " is honest and rejected in " +
             to_text(contribution.key) + ": " + to_string(reason));
  }

  void judge(const ReplicaRecord& replica, const Tables& before) {
    const auto old = before.replicas.find(replica.id);
    const bool served =
        old != before.replicas.end() && (old->second.state == ReplicaState::kServing ||
                                         old->second.state == ReplicaState::kAveraging);
    const bool blamed = replica.state == ReplicaState::kFailed &&
                        replica.failure == ReplicaFailure::kDigestMismatch;
    if (!served || !blamed || is_faulty(replica.id)) return;
    if (has_no_proofs(replica, before) && is_contradicted(replica, before)) return;
    violated(to_string(replica.id) + " is honest and fails: " + replica.detail);
  }

  static bool has_no_proofs(const ReplicaRecord& replica, const Tables& tables) {
    return tables.jobs.at(replica.job).spec.sync.algorithm == SyncAlgorithm::kDdp;
  }

  bool is_contradicted(const ReplicaRecord& replica, const Tables& tables) const {
    return std::ranges::any_of(tables.replicas, [&](const auto& entry) {
      const ReplicaRecord& other = entry.second;
      return other.job == replica.job && other.stage == replica.stage && is_faulty(other.id);
    });
  }

  void judge(const AgentRecord& agent, const Tables& before) {
    const auto old = before.agents.find(agent.id);
    const coordinator::HealthRecord was =
        old == before.agents.end() ? coordinator::HealthRecord() : old->second.health_record;
    const bool blamed = agent.health_record.violations > was.violations ||
                        agent.health_record.quarantines > was.quarantines;
    if (!blamed || has_faulty(agent.id, before)) return;
    violated(to_string(agent.id) + " is honest and was charged for " +
             to_string(agent.health_record.violation_reason));
  }

  bool has_faulty(AgentId agent, const Tables& tables) const {
    return std::ranges::any_of(tables.replicas, [&](const auto& entry) {
      return entry.second.agent == agent && is_faulty(entry.first);
    });
  }

  std::set<ReplicaId> faulty_, gave_;
};

}  // namespace

std::unique_ptr<Checker> make_honest_agents(const Checker::Context& context) {
  return std::make_unique<HonestAgents>(context);
}

}  // namespace shoal::sim
