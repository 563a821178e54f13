// A job does not train on for long with devices that one of higher priority lacks and could use.
// The checker looks only at clear cases: the higher job is the first one that lacks replicas, no
// device is free, no other job is releasing devices, and the lower job alone has as many sound
// devices as are lacking. It then finishes the round it is in; commits beyond a few, after the wait
// that the options give, break the invariant. Priorities are those that users asked for.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "coordinator/core/records/event_kinds.h"
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentRecord;
using coordinator::AgentState;
using coordinator::EventRecord;
using coordinator::JobDesired;
using coordinator::JobPhase;
using coordinator::JobReason;
using coordinator::JobRecord;
using coordinator::ReplicaRecord;
using coordinator::ReplicaState;

constexpr std::int64_t kCommitsMax = 4;
constexpr Duration kSlack = seconds(10);

using DeviceKey = std::pair<AgentId, std::int32_t>;

class Precedence final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "precedence"; }

  void submitted(const JobSpec& spec) override { priorities_[spec.name] = spec.swarm.priority; }
  void coordinator_started() override { waits_.clear(); }
  void coordinator_continued() override { waits_.clear(); }
  // What the coordinator waits for after that is in no table.
  void restored(const Tables&, bool) override { restored_ = true; }

  void durable(const Record& record, const Tables& before) override {
    if (const auto* event = std::get_if<EventRecord>(&record)) note(*event);
    const auto* job = std::get_if<JobRecord>(&record);
    if (job == nullptr) return;
    const auto was = before.jobs.find(job->id);
    if (was == before.jobs.end() || job->committed_round <= was->second.committed_round) return;
    for (auto& [pair, wait] : waits_) {
      if (pair.second != job->id || now() - wait.since < patience()) continue;
      if (++wait.commits <= kCommitsMax) continue;
      violated(to_string(pair.second) + " trains on with devices that " + to_string(pair.first) +
               " of higher priority lacks");
    }
  }

  void written(const Tables& tables) override {
    std::map<std::pair<JobId, JobId>, Wait> waits;
    const bool other_data = options().mean_of(Fault::kOtherData) != Duration();
    const JobRecord* high = restored_ || other_data ? nullptr : first_that_lacks(tables);
    if (high != nullptr) {
      for (const auto& [id, low] : tables.jobs) {
        if (!must_yield(tables, low, *high)) continue;
        const std::pair pair(high->id, id);
        const auto known = waits_.find(pair);
        waits[pair] = known == waits_.end() ? Wait{now(), 0} : known->second;
      }
    }
    waits_ = std::move(waits);
  }

 private:
  struct Wait {
    Instant since;
    std::int64_t commits = 0;  // of the lower job, after the patience
  };

  Duration patience() const {
    const auto& c = options().coordinator;
    return c.preempt_after + c.lease + kSlack;
  }

  // A job that was too slow to join somewhere is not asked again for a while.
  void note(const EventRecord& event) {
    if (event.kind == coordinator::event_kind::kJoinRefused) refused_.insert(event.job);
  }

  std::int64_t priority_of(const JobRecord& job) const {
    const auto known = priorities_.find(job.spec.name);
    return known == priorities_.end() ? job.priority : known->second;
  }

  static bool is_live(const ReplicaRecord& replica) {
    return !coordinator::is_terminal(replica.state) && replica.state != ReplicaState::kAbsent;
  }

  static std::int64_t lacking(const Tables& tables, const JobRecord& job) {
    std::map<StageIndex, std::int64_t> live;
    for (const auto& [id, replica] : tables.replicas) {
      if (replica.job == job.id && is_live(replica) && !is_reducer(tables, replica)) {
        ++live[replica.stage];
      }
    }
    std::int64_t lack = 0;
    for (StageIndex stage = 0; stage < static_cast<StageIndex>(job.spec.swarm.stages); ++stage) {
      lack += std::max<std::int64_t>(0, job.spec.swarm.min_replicas - live[stage]);
    }
    return lack;
  }

  bool lacks(const Tables& tables, const JobRecord& job) const {
    const bool may = job.phase == JobPhase::kQueued || job.phase == JobPhase::kGathering ||
                     job.phase == JobPhase::kStalled;
    // Agents that could not load it are not asked again for a while.
    const bool refused = job.reason == JobReason::kDataMissing ||
                         job.reason == JobReason::kDataInvalid ||
                         job.reason == JobReason::kModelDoesNotFit;
    return may && !refused && job.desired == JobDesired::kRun && job.yields_to == JobId() &&
           job.rollback_at.ns == 0 && lacking(tables, job) > 0;
  }

  const JobRecord* first_that_lacks(const Tables& tables) const {
    const JobRecord* first = nullptr;
    for (const auto& [id, job] : tables.jobs) {
      if (!lacks(tables, job)) continue;
      if (first == nullptr || priority_of(job) > priority_of(*first)) first = &job;
    }
    return first != nullptr && !refused_.contains(first->id) ? first : nullptr;
  }

  bool is_sound(const AgentRecord& agent) const {
    const bool here = agent.state != AgentState::kGone && agent.state != AgentState::kDraining;
    return here && !agent.cordoned && agent.refusals.empty() &&
           agent.health_record.quarantined_until <= now();
  }

  bool must_yield(const Tables& tables, const JobRecord& low, const JobRecord& high) const {
    if (priority_of(low) >= priority_of(high) || low.phase != JobPhase::kTraining) return false;
    if (low.desired != JobDesired::kRun || low.rollback_at.ns != 0) return false;
    for (const auto& [id, other] : tables.jobs) {
      const bool leaves = other.phase == JobPhase::kFinalizing || other.yields_to != JobId() ||
                          other.desired != JobDesired::kRun;
      if (id != low.id && !is_terminal(other.phase) && leaves) return false;
    }
    std::set<DeviceKey> held, of_low;
    for (const auto& [id, replica] : tables.replicas) {
      if (coordinator::is_terminal(replica.state)) continue;
      held.emplace(replica.agent, replica.device);
      const auto agent = tables.agents.find(replica.agent);
      if (agent == tables.agents.end() || !is_sound(agent->second)) continue;
      if (replica.job == low.id && is_live(replica) && !is_reducer(tables, replica)) {
        of_low.emplace(replica.agent, replica.device);
      }
    }
    return all_held(tables, held) &&
           static_cast<std::int64_t>(of_low.size()) >= lacking(tables, high);
  }

  static bool all_held(const Tables& tables, const std::set<DeviceKey>& held) {
    return std::ranges::all_of(tables.agents, [&](const auto& entry) {
      const AgentRecord& agent = entry.second;
      return agent.state == AgentState::kGone ||
             std::ranges::all_of(agent.devices, [&](const Device& device) {
               return device.kind == DeviceKind::kReducer ||
                      held.contains({agent.id, device.index});
             });
    });
  }

  std::map<std::string, std::int64_t> priorities_;  // by the name of a job
  std::map<std::pair<JobId, JobId>, Wait> waits_;   // by the higher job and the lower one
  std::set<JobId> refused_;
  bool restored_ = false;
};

}  // namespace

std::unique_ptr<Checker> make_precedence(const Checker::Context& context) {
  return std::make_unique<Precedence>(context);
}

}  // namespace shoal::sim
