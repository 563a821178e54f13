#include "coordinator/core/state/turn.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

template <typename Key>
bool knows(const std::vector<Key>& keys, const Key& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

template <typename Key>
void remember(std::vector<Key>& keys, const Key& key) {
  if (!knows(keys, key)) keys.push_back(key);
}

template <typename Key, typename Value>
void persist_all(const std::vector<Key>& keys, const FlatMap<Key, Value>& map, Effects& out) {
  for (const auto& key : keys) {
    if (const Value* value = map.find(key)) out.push_back(Persist{*value});
  }
}

}  // namespace

JobRecord& Turn::job(JobId id) {
  ++writes_;
  remember(jobs_, id);
  JobRecord& record = state_.jobs.at(id);
  record.updated_at = now_;
  return record;
}

AgentRecord& Turn::agent(AgentId id) {
  ++writes_;
  remember(agents_, id);
  AgentRecord& record = state_.agents.at(id);
  record.updated_at = now_;
  return record;
}

ReplicaRecord& Turn::replica(ReplicaId id) {
  ++writes_;
  remember(replicas_, id);
  ReplicaRecord& record = state_.replicas.at(id);
  record.updated_at = now_;
  return record;
}

RoundRecord& Turn::round(const RoundKey& key) {
  ++writes_;
  remember(rounds_, key);
  return state_.rounds.at(key);
}

ContributionRecord& Turn::contribution(const RoundKey& key, ReplicaId replica) {
  const ContributionKey both(key, replica);
  ++writes_;
  remember(contributions_, both);
  return state_.contributions.at(both);
}

CheckpointRecord& Turn::checkpoint(CheckpointId id) {
  ++writes_;
  remember(checkpoints_, id);
  CheckpointRecord& record = state_.checkpoints.at(id);
  record.updated_at = now_;
  return record;
}

CounterRecord& Turn::counters() {
  ++writes_;
  counters_touched_ = true;
  return state_.counters;
}

JobRecord& Turn::add(JobRecord record) {
  const JobId id = record.id;
  state_.jobs.put(id, std::move(record));
  return job(id);
}

AgentRecord& Turn::add(AgentRecord record) {
  const AgentId id = record.id;
  state_.agents.put(id, std::move(record));
  return agent(id);
}

ReplicaRecord& Turn::add(ReplicaRecord record) {
  const ReplicaId id = record.id;
  state_.replicas.put(id, std::move(record));
  return replica(id);
}

RoundRecord& Turn::add(RoundRecord record) {
  const RoundKey key = record.key;
  state_.rounds.put(key, std::move(record));
  return round(key);
}

ContributionRecord& Turn::add(ContributionRecord record) {
  const ContributionKey key(record.key, record.replica);
  state_.contributions.put(key, std::move(record));
  return contribution(key.first, key.second);
}

CheckpointRecord& Turn::add(CheckpointRecord record) {
  const CheckpointId id = record.id;
  state_.checkpoints.put(id, std::move(record));
  return checkpoint(id);
}

LinkRecord& Turn::add(const LinkRecord& record) {
  const LinkKey key(record.from, record.to);
  ++writes_;
  remember(links_, key);
  state_.links.put(key, record);
  return state_.links.at(key);
}

void Turn::keep(SubmittedText text) {
  ++writes_;
  dropped_.push_back(std::move(text));
}

void Turn::drop_replica(ReplicaId id) {
  if (knows(replicas_, id)) dropped_.push_back(state_.replicas.at(id));
  state_.replicas.erase(id);
  state_.service.erase(id);
}

void Turn::drop_round(const RoundKey& key) {
  std::vector<ContributionKey> gone;  // those of reducers, too
  for (const auto& [both, contribution] : state_.contributions) {
    if (both.first == key) gone.push_back(both);
  }
  for (const ContributionKey& both : gone) {
    if (knows(contributions_, both)) dropped_.push_back(state_.contributions.at(both));
    state_.contributions.erase(both);
  }
  if (const RoundRecord* record = state_.rounds.find(key)) {
    if (knows(rounds_, key)) dropped_.push_back(*record);
    state_.rounds.erase(key);
  }
}

void Turn::drop_checkpoint(CheckpointId id) {
  if (knows(checkpoints_, id)) dropped_.push_back(state_.checkpoints.at(id));
  state_.checkpoints.erase(id);
}

void Turn::event(Severity severity, const char* kind, const EventScope& scope,
                 std::string message) {
  EventRecord record;
  record.seq = counters().next_event++;
  record.at = now_;
  record.severity = severity;
  record.kind = kind;
  record.job = scope.job;
  record.agent = scope.agent;
  record.replica = scope.replica;
  record.round = scope.round;
  record.message = std::move(message);
  events_.push_back(std::move(record));
}

void Turn::count_transition(const char* machine, const char* from, const char* to) {
  ++state_.transitions[std::string(machine) + ' ' + from + ' ' + to];
}

void Turn::send(AgentId agent, ToAgent message) {
  const Presence* presence = state_.presence.find(agent);
  if (presence != nullptr && presence->connected) send_to(presence->connection, std::move(message));
}

void Turn::send_to(ConnectionId connection, ToAgent message) {
  outgoing_.push_back(Send{connection, std::move(message)});
}

void Turn::disconnect(ConnectionId connection) { outgoing_.push_back(Disconnect{connection}); }

void Turn::reply(RequestId request, Result<JobId> result, std::vector<FieldError> fields) {
  outgoing_.push_back(Reply{request, std::move(result), std::move(fields), nullptr});
}

void Turn::reply_plan(RequestId request, PlacementDecision plan) {
  auto shared = std::make_shared<const PlacementDecision>(std::move(plan));
  outgoing_.push_back(Reply{request, JobId(), {}, std::move(shared)});
}

void Turn::delete_files(CheckpointId checkpoint) {
  outgoing_.push_back(DeleteCheckpointFiles{checkpoint});
}

void Turn::look_again(JobId job, Instant at) {
  auto& due = state_.timers[job].look_again_at;
  if (!due || at < *due) due = at;
}

void Turn::finish(Effects& out) {
  // A dropped record goes first: its key may have been given to a new record in the same step.
  for (auto& record : dropped_) out.push_back(Persist{std::move(record)});
  if (counters_touched_) out.push_back(Persist{state_.counters});
  persist_all(agents_, state_.agents, out);
  persist_all(jobs_, state_.jobs, out);
  persist_all(replicas_, state_.replicas, out);
  persist_all(rounds_, state_.rounds, out);
  persist_all(contributions_, state_.contributions, out);
  persist_all(checkpoints_, state_.checkpoints, out);
  persist_all(links_, state_.links, out);
  for (auto& event : events_) out.push_back(Persist{std::move(event)});
  for (auto& effect : outgoing_) out.push_back(std::move(effect));
}

}  // namespace shoal::coordinator
