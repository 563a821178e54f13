#include "coordinator/core/state/transaction.h"

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
void erase_devices_of(AgentId agent, FlatMap<Key, Value>& map) {
  std::vector<Key> devices;
  for (const auto& [key, value] : map) {
    if (key.first == agent) devices.push_back(key);
  }
  for (const Key& key : devices) map.erase(key);
}

template <typename Key, typename Value>
void persist_all(const std::vector<Key>& keys, const FlatMap<Key, Value>& map, Effects& out) {
  for (const auto& key : keys) {
    if (const Value* value = map.find(key)) out.push_back(Persist{*value});
  }
}

}  // namespace

template <typename Key, typename Value>
Value& Transaction::write(std::vector<Key>& touched, FlatMap<Key, Value>& records, const Key& key) {
  ++writes_;
  remember(touched, key);
  Value& record = records.at(key);
  if constexpr (requires { record.updated_at; }) record.updated_at = now_;
  return record;
}

JobRecord& Transaction::job(JobId id) { return write(jobs_, state_.jobs, id); }
AgentRecord& Transaction::agent(AgentId id) { return write(agents_, state_.agents, id); }
ReplicaRecord& Transaction::replica(ReplicaId id) { return write(replicas_, state_.replicas, id); }
RoundRecord& Transaction::round(const RoundKey& key) { return write(rounds_, state_.rounds, key); }
ContributionRecord& Transaction::contribution(const RoundKey& key, ReplicaId replica) {
  return write(contributions_, state_.contributions, ContributionKey(key, replica));
}
CheckpointRecord& Transaction::checkpoint(CheckpointId id) {
  return write(checkpoints_, state_.checkpoints, id);
}

CounterRecord& Transaction::counters() {
  ++writes_;
  counters_touched_ = true;
  return state_.counters;
}

template <typename Key, typename Value>
Value& Transaction::put(std::vector<Key>& touched, FlatMap<Key, Value>& records, const Key& key,
                        Value record) {
  records.put(key, std::move(record));
  return write(touched, records, key);
}

JobRecord& Transaction::add(JobRecord record) {
  const JobId id = record.id;
  return put(jobs_, state_.jobs, id, std::move(record));
}
AgentRecord& Transaction::add(AgentRecord record) {
  const AgentId id = record.id;
  return put(agents_, state_.agents, id, std::move(record));
}
ReplicaRecord& Transaction::add(ReplicaRecord record) {
  const ReplicaId id = record.id;
  return put(replicas_, state_.replicas, id, std::move(record));
}
RoundRecord& Transaction::add(RoundRecord record) {
  const RoundKey key = record.key;
  return put(rounds_, state_.rounds, key, std::move(record));
}
ContributionRecord& Transaction::add(ContributionRecord record) {
  const ContributionKey key(record.key, record.replica);
  return put(contributions_, state_.contributions, key, std::move(record));
}
CheckpointRecord& Transaction::add(CheckpointRecord record) {
  const CheckpointId id = record.id;
  return put(checkpoints_, state_.checkpoints, id, std::move(record));
}
LinkRecord& Transaction::add(const LinkRecord& record) {
  return put(links_, state_.links, LinkKey(record.from, record.to), record);
}

void Transaction::keep(SubmittedText text) {
  ++writes_;
  dropped_.push_back(std::move(text));
}

void Transaction::drop_replica(ReplicaId id) {
  if (knows(replicas_, id)) dropped_.push_back(state_.replicas.at(id));
  for (const KeptCopy& copy : state_.replicas.at(id).copies) state_.copy_faults.erase(copy.id);
  state_.copies.erase(id);
  state_.replicas.erase(id);
  state_.service.erase(id);
  state_.speeds.erase(id);
  state_.compute.erase(id);
  state_.loads.erase(id);
  state_.tensors.erase(id);
  state_.joiners.erase(id);
}

void Transaction::drop_round(const RoundKey& key) {
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

void Transaction::drop_checkpoint(CheckpointId id) {
  if (knows(checkpoints_, id)) dropped_.push_back(state_.checkpoints.at(id));
  state_.checkpoints.erase(id);
  state_.stores.erase(id);
}

void Transaction::forget_agent(AgentId id) {
  ++writes_;
  std::vector<LinkKey> lines;
  for (const auto& [key, link] : state_.links) {
    if (key.first == id || key.second == id) lines.push_back(key);
  }
  for (const LinkKey& key : lines) state_.links.erase(key);
  erase_devices_of(id, state_.resting_until);
  erase_devices_of(id, state_.device_failures);
  erase_devices_of(id, state_.slow_devices);
  erase_devices_of(id, state_.device_facts);
  erase_devices_of(id, state_.foreign_loads);
  state_.presence.erase(id);
  state_.agents.erase(id);
  dropped_.push_back(ForgottenAgent{id});
}

void Transaction::event(Severity severity, const char* kind, const EventScope& scope,
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

void Transaction::count_transition(const char* machine, const char* from, const char* to) {
  ++state_.transitions[std::string(machine) + ' ' + from + ' ' + to];
}

void Transaction::send(AgentId agent, ToAgent message) {
  const Presence* presence = state_.presence.find(agent);
  if (presence != nullptr && presence->connected) send_to(presence->connection, std::move(message));
}

void Transaction::send_to(ConnectionId connection, ToAgent message) {
  outgoing_.push_back(Send{connection, std::move(message)});
}

void Transaction::disconnect(ConnectionId connection) {
  outgoing_.push_back(Disconnect{connection});
}

void Transaction::reply(RequestId request, Result<JobId> result, std::vector<FieldError> fields,
                        std::string forbidden) {
  outgoing_.push_back(
      Reply{request, std::move(result), std::move(fields), nullptr, std::move(forbidden)});
}

void Transaction::reply_plan(RequestId request, PlacementDecision plan) {
  auto shared = std::make_shared<const PlacementDecision>(std::move(plan));
  outgoing_.push_back(Reply{request, JobId(), {}, std::move(shared)});
}

void Transaction::delete_files(CheckpointId checkpoint) {
  outgoing_.push_back(DeleteCheckpointFiles{checkpoint});
}

void Transaction::measure_line(AgentId agent) {
  const Presence* presence = state_.presence.find(agent);
  if (presence == nullptr || !presence->connected) return;
  outgoing_.push_back(MeasureHostLine{presence->connection});
}

void Transaction::show(ShowSpeed speed) { outgoing_.push_back(std::move(speed)); }
void Transaction::show(ShowPlacement placement) { outgoing_.push_back(std::move(placement)); }
void Transaction::note(NoteDecision decision) { outgoing_.push_back(std::move(decision)); }

void Transaction::schedule_wakeup(JobId job, Instant at) {
  auto& due = state_.timers[job].wakeup_at;
  if (!due || at < *due) due = at;
}

void Transaction::finish(Effects& out) {
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
