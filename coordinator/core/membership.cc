#include "coordinator/core/membership.h"

#include <algorithm>

#include "coordinator/core/absence.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/rounds/catch_up.h"
#include "coordinator/core/rounds/hold_ups.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"
#include "coordinator/core/state/standing.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kLeaseScanEvery = seconds(1);

std::vector<ReplicaId> replicas_of(const State& state, AgentId agent) {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : state.replicas) {
    if (replica.agent == agent) ids.push_back(id);
  }
  return ids;
}

const AgentRecord* find_by_uid(const State& state, const std::string& uid) {
  for (const auto& [id, agent] : state.agents) {
    if (agent.uid == uid) return &agent;
  }
  return nullptr;
}

bool is_connected(const State& state, AgentId agent) {
  const Presence* presence = state.presence.find(agent);
  return presence != nullptr && presence->connected;
}

// "0.1.0 speaks protocol 2", "0.1.0 speaks protocol 2 to 4"
std::string spoken(const std::string& version, std::int32_t min, std::int32_t max) {
  return version + " speaks protocol " + (min < max ? std::to_string(min) + " to " : "") +
         std::to_string(max);
}

std::optional<Error> incompatible(const State& state, const Hello& hello) {
  const bool agent_is_old = hello.protocol < kProtocolVersionMin;
  if (!agent_is_old && hello.protocol_min <= kProtocolVersion) return std::nullopt;
  return Error{Code::kIncompatible,
               "shoal-agent " + spoken(hello.version, hello.protocol_min, hello.protocol) +
                   ", shoal-coordinator " +
                   spoken(state.options.version, kProtocolVersionMin, kProtocolVersion),
               "protocol",
               agent_is_old ? "upgrade Shoal on the host of the agent"
                            : "upgrade Shoal on the host of the coordinator"};
}

// Its hello was under way for so long that a stream which this agent opened later was heard first,
// and says what is true now.
bool is_overtaken(const State& state, AgentId agent, ConnectionId connection) {
  const Presence* presence = state.presence.find(agent);
  return presence != nullptr && connection < presence->connection;
}

// Why this hello cannot be accepted; none: it can.
std::optional<Error> refusal(const State& state, const Hello& hello, const AgentRecord* known) {
  if (auto error = incompatible(state, hello)) return error;
  if (known != nullptr && hello.incarnation.n != 0 && hello.incarnation < known->incarnation) {
    return Error{Code::kConflict, "a newer start of this agent has joined", "incarnation",
                 "two agents share one data folder; give each its own --data-dir"};
  }
  for (const auto& [id, agent] : state.agents) {
    if (agent.name == hello.name && agent.uid != hello.uid && is_connected(state, id)) {
      return Error{Code::kConflict, "another agent named " + hello.name + " is connected", "name",
                   "choose another --name"};
    }
  }
  if (known == nullptr &&
      static_cast<std::int64_t>(state.agents.size()) >= state.options.agents_max) {
    return Error{Code::kResourceExhausted, "the cluster is full", "agents_max",
                 "raise the limit of the coordinator"};
  }
  return std::nullopt;
}

void take_connection(Turn& turn, AgentId agent, ConnectionId connection) {
  VolatileState& state = turn.volatile_state();
  Presence& presence = state.presence[agent];
  if (presence.connected) {
    state.by_connection.erase(presence.connection);
    turn.disconnect(presence.connection);
  }
  presence = {.connection = connection, .connected = true, .last_seen = turn.now()};
  state.by_connection.put(connection, agent);
  if (!state.next_lease_scan) state.next_lease_scan = turn.now() + kLeaseScanEvery;
}

AgentId create_agent(Turn& turn, const Hello& hello) {
  AgentRecord record;
  record.id = AgentId(turn.counters().next_agent++);
  record.uid = hello.uid;
  record.joined_at = turn.now();
  return turn.add(std::move(record)).id;
}

void describe(AgentRecord& agent, const Hello& hello) {
  agent.name = hello.name;
  agent.version = hello.version;
  agent.host = hello.host;
  agent.labels = hello.labels;
  // A measured speed outlives the reconnect of the same device.
  for (Device device : hello.devices) {
    for (const auto& old : agent.devices) {
      if (device.gflops == 0 && old.index == device.index && old.name == device.name) {
        device.gflops = old.gflops;
      }
    }
    const auto slot = std::find_if(agent.devices.begin(), agent.devices.end(),
                                   [&](const auto& d) { return d.index == device.index; });
    if (slot == agent.devices.end()) {
      agent.devices.push_back(device);
    } else {
      *slot = device;
    }
  }
  std::erase_if(agent.devices, [&](const Device& device) {
    return std::none_of(hello.devices.begin(), hello.devices.end(),
                        [&](const Device& d) { return d.index == device.index; });
  });
}

void welcome(Turn& turn, AgentId agent, ConnectionId connection, const std::vector<ReplicaId>& keep,
             const std::vector<ReplicaId>& claimed) {
  const Options& options = turn.options();
  std::vector<ReplicaId> all = claimed;
  all.insert(all.end(), keep.begin(), keep.end());
  turn.send_to(connection, Welcome{agent, turn.state().agents.at(agent).incarnation,
                                   options.heartbeat_every, options.lease, std::move(all)});
}

const HeldReplica* find_held(const Hello& hello, const ReplicaRecord& replica) {
  const auto held = std::ranges::find_if(hello.replicas, [&](const HeldReplica& candidate) {
    return candidate.replica == replica.id && candidate.store == replica.store;
  });
  return held == hello.replicas.end() ? nullptr : &*held;
}

// It loads, or was to: its agent may not have heard of it.
bool on_its_way(const ReplicaRecord& replica) { return replica.held_round < 0; }

void fail_missing(Turn& turn, const std::vector<ReplicaId>& missing, bool same_process) {
  for (const ReplicaId replica : missing) {
    if (!is_live(turn.state(), replica)) continue;
    fail_replica(turn, replica,
                 same_process ? ReplicaFailure::kTrainerExited : ReplicaFailure::kAgentRestarted,
                 same_process ? "the agent returned without this replica"
                              : "its agent was started anew and did not find its trainer");
  }
}

// It was given up while it was away, or is of a history that a backup has ended.
void say_too_late(Turn& turn, AgentId agent, const HeldReplica& held) {
  const JobRecord* job = turn.state().jobs.find(held.job);
  if (job == nullptr || is_terminal(job->phase) || held.key.round <= 0) return;
  turn.event(Severity::kWarning, event_kind::kReplicaReturned,
             {.job = held.job, .agent = agent, .replica = held.replica, .round = held.key.round},
             to_string(held.replica) + " of " + turn.state().agents.at(agent).name +
                 " returned too late and is let go: it holds round " +
                 std::to_string(held.key.round) + " of epoch " + std::to_string(held.key.lineage) +
                 ", the job is at round " + std::to_string(job->committed_round) + " of epoch " +
                 std::to_string(job->lineage));
}

// The job took it over in a new epoch, or counts on what it joined with, and it may not have heard
// of that.
void tell_epoch(Turn& turn, ReplicaId id, const HeldReplica& held) {
  const ReplicaRecord& replica = turn.state().replicas.at(id);
  const JobRecord& job = turn.state().jobs.at(replica.job);
  const bool taken_over = replica.lineage == job.lineage && replica.held_round >= 0 &&
                          replica.held_round == job.committed_round;
  if (!taken_over || held.key.round != job.committed_round) return;
  if (held.key.lineage == job.lineage && replica.source.kind != SourceKind::kPeer) return;
  tell_to_go_on(turn, id);
}

// What its host still runs goes on with what it holds, whichever process of the agent says so; what
// that does not know is gone.
void resume(Turn& turn, AgentId agent, ConnectionId connection, const Hello& hello,
            bool same_process) {
  std::vector<ReplicaId> claimed, keep, missing;
  begin_claims(turn, agent);
  for (const HeldReplica& held : hello.replicas) {
    const ReplicaRecord* known = turn.state().replicas.find(held.replica);
    if (claim_newer_state(turn, agent, held)) {
      claimed.push_back(held.replica);
    } else if (known == nullptr || known->store != held.store) {
      say_too_late(turn, agent, held);
    }
  }
  for (const ReplicaId replica : replicas_of(turn.state(), agent)) {
    if (std::ranges::count(claimed, replica) > 0) continue;
    const ReplicaRecord& record = turn.state().replicas.at(replica);
    const bool running = find_held(hello, record) != nullptr;
    (running || (same_process && on_its_way(record)) ? keep : missing).push_back(replica);
  }
  for (const ReplicaId replica : keep) come_back(turn, replica);
  welcome(turn, agent, connection, keep, claimed);
  for (const ReplicaId replica : keep) {
    const HeldReplica* held = find_held(hello, turn.state().replicas.at(replica));
    if (held != nullptr) tell_epoch(turn, replica, *held);
    catch_up(turn, replica);
  }
  fail_missing(turn, missing, same_process);
  refresh_agent(turn, agent);
}

void lose(Turn& turn, AgentId agent, AgentGone gone, const std::string& why) {
  VolatileState& state = turn.volatile_state();
  if (Presence* presence = state.presence.find(agent)) {
    if (presence->connected) {
      state.by_connection.erase(presence->connection);
      turn.disconnect(presence->connection);
    }
    state.presence.erase(agent);
  }
  transition(turn, agent, AgentState::kGone, gone);
  for (const ReplicaId replica : replicas_of(turn.state(), agent)) {
    if (!is_live(turn.state(), replica)) continue;
    if (gone == AgentGone::kLost && can_be_absent(turn.state(), replica)) {
      become_absent(turn, replica, why);
    } else {
      fail_replica(turn, replica, ReplicaFailure::kAgentLost, why);
    }
  }
  end_stay(turn.agent(agent).attendance, turn.now());
  const std::string& name = turn.state().agents.at(agent).name;
  turn.event(gone == AgentGone::kLeft ? Severity::kInfo : Severity::kWarning,
             event_kind::kAgentGone, {.agent = agent}, "agent " + name + " is gone: " + why);
}

void begin_stay(Turn& turn, AgentId id) {
  AgentRecord& agent = turn.agent(id);
  end_stay(agent.attendance, turn.now());
  agent.attendance.since = turn.now();
  if (agent.state != AgentState::kJoining) transition(turn, id, AgentState::kJoining);
  transition(turn, id, AgentState::kIdle);
}

void say_who_came(Turn& turn, AgentId id, const Hello& hello, bool same_process) {
  if (same_process) {
    return turn.event(Severity::kInfo, event_kind::kAgentReturned, {.agent = id},
                      "agent " + hello.name + " is back");
  }
  turn.event(Severity::kInfo, event_kind::kAgentJoined, {.agent = id},
             "agent " + hello.name + " joined with " + std::to_string(hello.devices.size()) +
                 (hello.devices.size() == 1 ? " device" : " devices"));
}

// Whose streams are open and who said nothing for so long.
std::vector<AgentId> silent_for(const Turn& turn, Duration limit) {
  std::vector<AgentId> silent;
  for (const auto& [id, presence] : turn.state().presence) {
    const bool over = turn.now() >= turn.deadline(presence.last_seen, limit);
    if (presence.connected && over) silent.push_back(id);
  }
  return silent;
}

// Agents whose leases are over. Those that fell silent together lapse together: a line that was cut
// for all of them must not look, for a moment, as if some were still there to go on without the
// others.
std::vector<std::pair<AgentId, std::string>> lapsed(const Turn& turn) {
  const Options& options = turn.options();
  std::vector<std::pair<AgentId, std::string>> lost;
  const bool any = !silent_for(turn, options.lease).empty();
  const Duration together = options.lease - options.heartbeat_every - options.heartbeat_every / 2;
  for (const AgentId id : silent_for(turn, any ? together : options.lease)) {
    lost.emplace_back(id, "silent for longer than its lease");
  }
  for (const auto& [id, presence] : turn.state().presence) {
    if (presence.connected) continue;
    const Duration grace = presence.lost_at - presence.hung_up_at;
    if (turn.now() < turn.deadline(presence.hung_up_at, grace)) continue;
    lost.emplace_back(id, "its connection did not come back");
  }
  return lost;
}

// Those that are left. Returns when the next one is waited for no longer.
std::optional<Instant> lose_who_holds_up(Turn& turn) {
  const HoldUps found = find_hold_ups(turn);
  for (const AgentId id : found.over) {
    if (!is_connected(turn.state(), id)) continue;  // it holds up more than one round
    lose(turn, id, AgentGone::kLost, "silent while a round waited for it alone");
  }
  return found.look_again_at;
}

void end_quarantines(Turn& turn) {
  std::vector<AgentId> over;
  for (const auto& [id, agent] : turn.state().agents) {
    if (is_quarantined(agent) && turn.now() >= agent.standing.quarantined_until) over.push_back(id);
  }
  for (const AgentId id : over) end_quarantine(turn, id, "its quarantine is over");
}

// When the process before this one was last known to work.
Instant last_written(const State& state) {
  Instant last;
  for (const auto& [id, job] : state.jobs) last = std::max(last, job.updated_at);
  for (const auto& [id, agent] : state.agents) last = std::max(last, agent.updated_at);
  for (const auto& [id, replica] : state.replicas) last = std::max(last, replica.updated_at);
  return last;
}

}  // namespace

void on_booted(Turn& turn, const Booted& booted) {
  const State& state = turn.state();
  VolatileState& process = turn.volatile_state();
  const Instant last = last_written(state);
  process.lost_time.add(last, turn.now());
  put_off_rollbacks(turn, std::max(turn.now() - last, Duration()));
  process.booted_at = turn.now();
  const std::int64_t epoch = ++turn.counters().boot_epoch;
  turn.counters().store = booted.store;
  for (const auto& [id, agent] : state.agents) {
    if (agent.state == AgentState::kGone) continue;
    process.presence.put(id, {.connection = {},
                              .connected = false,
                              .last_seen = turn.now(),
                              .hung_up_at = turn.now(),
                              .lost_at = turn.now() + turn.options().boot_grace});
    process.next_lease_scan = turn.now() + kLeaseScanEvery;
  }
  for (const auto& [id, job] : state.jobs) {
    if (job.phase == JobPhase::kTraining) set_reason(turn, id, JobReason::kReconnecting);
  }
  turn.event(Severity::kInfo, event_kind::kCoordinatorStarted, {},
             "coordinator started, boot " + std::to_string(epoch));
  begin_restoring(turn, booted.found);
}

void on_hello(Turn& turn, ConnectionId connection, const Hello& hello) {
  const AgentRecord* known = find_by_uid(turn.state(), hello.uid);
  if (known != nullptr && is_overtaken(turn.state(), known->id, connection)) {
    return turn.disconnect(connection);
  }
  if (auto error = refusal(turn.state(), hello, known)) {
    turn.event(Severity::kWarning, event_kind::kAgentRefused,
               {.agent = known == nullptr ? AgentId() : known->id},
               "agent " + hello.name + " refused: " + to_string(*error));
    turn.send_to(connection, Refused{std::move(*error)});
    turn.disconnect(connection);
    return;
  }
  const AgentId id = known == nullptr ? create_agent(turn, hello) : known->id;
  const bool same_process =
      hello.incarnation.n != 0 && hello.incarnation == turn.state().agents.at(id).incarnation;
  const bool stayed = turn.state().agents.at(id).state != AgentState::kGone;
  take_connection(turn, id, connection);
  describe(turn.agent(id), hello);
  if (!same_process) {
    AgentRecord& agent = turn.agent(id);
    const Incarnation floor = turn.state().counters.incarnation_floor;
    agent.incarnation.n = std::max({agent.incarnation.n, hello.incarnation.n, floor.n}) + 1;
    forget_refusals(turn, id);  // its files may have been mended
  }
  if (!same_process || !stayed) begin_stay(turn, id);
  say_who_came(turn, id, hello, same_process);
  resume(turn, id, connection, hello, same_process);
}

void on_hung_up(Turn& turn, ConnectionId connection) {
  VolatileState& state = turn.volatile_state();
  const AgentId* agent = state.by_connection.find(connection);
  if (agent == nullptr) return;  // an older stream of an agent that already came back
  const AgentId id = *agent;
  state.by_connection.erase(connection);
  Presence& presence = state.presence.at(id);
  presence.connected = false;
  presence.hung_up_at = turn.now();
  // A line that was cut shows late: by then most of the lease may be over.
  presence.lost_at =
      std::min(turn.now() + turn.options().reconnect_grace,
               std::max(turn.now(), turn.deadline(presence.last_seen, turn.options().lease)));
  turn.event(Severity::kWarning, event_kind::kAgentDisconnected, {.agent = id},
             "agent " + turn.state().agents.at(id).name + " lost its connection");
}

void on_goodbye(Turn& turn, AgentId agent, const Goodbye& goodbye) {
  if (turn.state().agents.at(agent).state != AgentState::kDraining) {
    transition(turn, agent, AgentState::kDraining);
  }
  lose(turn, agent, AgentGone::kLeft, goodbye.reason.empty() ? "it left" : goodbye.reason);
}

void on_device_measured(Turn& turn, AgentId agent, const DeviceMeasured& measured) {
  for (Device& device : turn.agent(agent).devices) {
    if (device.index == measured.device.index) device = measured.device;
  }
}

void scan_leases(Turn& turn) {
  VolatileState& state = turn.volatile_state();
  if (!state.next_lease_scan || turn.now() < *state.next_lease_scan) return;
  for (const auto& [id, why] : lapsed(turn)) lose(turn, id, AgentGone::kLost, why);
  const Instant next = turn.now() + kLeaseScanEvery;
  const Instant next_hold_up = lose_who_holds_up(turn).value_or(next);
  end_quarantines(turn);
  state.next_lease_scan.reset();
  if (!state.presence.empty()) state.next_lease_scan = std::min(next, next_hold_up);
}

}  // namespace shoal::coordinator
