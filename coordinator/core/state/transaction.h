// One step of the core in the making: gives write access to records, remembers which were touched,
// and collects what is to be sent. finish() lays the effects out in the one allowed order: every
// Persist of the step, then everything that leaves the process.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/state/io.h"
#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

struct EventScope {
  JobId job = {};
  AgentId agent = {};
  ReplicaId replica = {};
  RoundNumber round = 0;
};

class Transaction {
 public:
  Transaction(State& state, Instant now) : state_(state), now_(now) {}
  Transaction(const Transaction&) = delete;

  Instant now() const { return now_; }
  const State& state() const { return state_; }
  VolatileState& volatile_state() { return state_; }
  const Options& options() const { return state_.options; }

  // When something that began at `start` has lasted for `limit`, without the time in which this
  // coordinator stood still: nobody else is to blame for that.
  Instant deadline(Instant start, Duration limit) const {
    return state_.lost_time.deadline(start, limit);
  }

  // Write access; the record is persisted at the end of the step. The reference is good until the
  // next record of the same kind is created or dropped.
  JobRecord& job(JobId id);
  AgentRecord& agent(AgentId id);
  ReplicaRecord& replica(ReplicaId id);
  RoundRecord& round(const RoundKey& key);
  ContributionRecord& contribution(const RoundKey& key, ReplicaId replica);
  CheckpointRecord& checkpoint(CheckpointId id);
  CounterRecord& counters();

  // New records, or existing ones overwritten.
  JobRecord& add(JobRecord record);
  AgentRecord& add(AgentRecord record);
  ReplicaRecord& add(ReplicaRecord record);
  RoundRecord& add(RoundRecord record);
  ContributionRecord& add(ContributionRecord record);
  CheckpointRecord& add(CheckpointRecord record);
  LinkRecord& add(const LinkRecord& record);

  void keep(SubmittedText text);  // in the store only

  // Out of memory, not out of the store: their last value is still persisted in this step.
  void drop_replica(ReplicaId id);
  void drop_round(const RoundKey& key);  // with its contributions
  void drop_checkpoint(CheckpointId id);
  // Out of both, with its lines; no live replica is of this agent.
  void forget_agent(AgentId id);

  void event(Severity severity, const char* kind, const EventScope& scope, std::string message);
  void count_transition(const char* machine, const char* from, const char* to);

  void send(AgentId agent, ToAgent message);  // lost when the agent is not connected
  // To a live replica, by way of its agent.
  template <typename Body>
  void tell(ReplicaId replica, Body body) {
    send(state_.replicas.at(replica).agent, ToReplica<Body>{replica, std::move(body)});
  }
  void send_to(ConnectionId connection, ToAgent message);
  void disconnect(ConnectionId connection);
  // `forbidden`: of Reply.
  void reply(RequestId request, Result<JobId> result, std::vector<FieldError> fields = {},
             std::string forbidden = {});
  void reply_plan(RequestId request, PlacementDecision plan);
  void delete_files(CheckpointId checkpoint);
  void measure_line(AgentId agent);  // lost when the agent is not connected
  void show(ShowSpeed speed);
  void show(ShowPlacement placement);
  void note(NoteDecision decision);

  // Grows with every write and every message: unchanged means that nothing was done.
  std::size_t activity() const { return writes_ + outgoing_.size(); }

  // The job's deadline: the earliest instant asked for since advance_jobs() looked at it.
  void schedule_wakeup(JobId job, Instant at);

  void finish(Effects& out);

 private:
  // Every write access goes through here: the record is remembered and, where it has one, its
  // updated_at is now.
  template <typename Key, typename Value>
  Value& write(std::vector<Key>& touched, FlatMap<Key, Value>& records, const Key& key);
  template <typename Key, typename Value>
  Value& put(std::vector<Key>& touched, FlatMap<Key, Value>& records, const Key& key, Value record);

  State& state_;
  Instant now_;
  std::size_t writes_ = 0;
  bool counters_touched_ = false;
  std::vector<JobId> jobs_;
  std::vector<AgentId> agents_;
  std::vector<ReplicaId> replicas_;
  std::vector<RoundKey> rounds_;
  std::vector<ContributionKey> contributions_;
  std::vector<CheckpointId> checkpoints_;
  std::vector<LinkKey> links_;
  std::vector<Record> dropped_;  // records that are not, or no longer, in memory
  std::vector<EventRecord> events_;
  Effects outgoing_;
};

}  // namespace shoal::coordinator
