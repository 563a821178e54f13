#include "coordinator/core/membership.h"

#include <algorithm>

#include "coordinator/core/absence.h"
#include "coordinator/core/checkpoints/keeping.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/relays.h"
#include "coordinator/core/releases.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/device_failures.h"
#include "coordinator/core/replicas/device_health.h"
#include "coordinator/core/replicas/line_probes.h"
#include "coordinator/core/replicas/profiling.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/rounds/catch_up.h"
#include "coordinator/core/rounds/hold_ups.h"
#include "coordinator/core/state/blocks.h"
#include "coordinator/core/state/commit_proof.h"
#include "coordinator/core/state/corrupt_records.h"
#include "coordinator/core/state/health_record.h"
#include "coordinator/core/state/machines.h"
#include "coordinator/core/state/round_facts.h"

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

std::int64_t count_present(const State& state) {
  return std::ranges::count_if(
      state.agents, [](const auto& entry) { return entry.second.state != AgentState::kGone; });
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
  const bool comes = known == nullptr || known->state == AgentState::kGone;
  if (comes && count_present(state) >= state.options.agents_max) {
    return Error{Code::kResourceExhausted,
                 "the cluster is full: " + std::to_string(state.options.agents_max) + " agents",
                 "agents_max", "let agents that are no longer needed leave"};
  }
  return std::nullopt;
}

void take_connection(Transaction& tx, AgentId agent, const AgentHello& said) {
  const ConnectionId connection = said.connection;
  VolatileState& state = tx.volatile_state();
  Presence& presence = state.presence[agent];
  if (presence.connected) {
    state.by_connection.erase(presence.connection);
    tx.disconnect(presence.connection);
  }
  presence = {.connection = connection,
              .connected = true,
              .last_seen = tx.now(),
              .hears_relays = said.hello.hears_relays,
              .protocol = said.hello.protocol};
  state.by_connection.put(connection, agent);
  end_measuring(tx, agent);
  if (!state.next_lease_scan) state.next_lease_scan = tx.now() + kLeaseScanEvery;
}

// A machine has the id of its certificate, which was given out when it joined the cluster.
AgentId create_agent(Transaction& tx, const AgentHello& said) {
  AgentRecord record;
  const std::uint64_t next = tx.counters().next_agent;
  record.id = said.machine.n != 0 ? said.machine : AgentId(next);
  tx.counters().next_agent = std::max(next, record.id.n + 1);
  record.uid = said.hello.uid;
  record.joined_at = tx.now();
  return tx.add(std::move(record)).id;
}

void describe(AgentRecord& agent, const Hello& hello) {
  agent.name = hello.name;
  if (agent.version != hello.version) agent.blocks.clear();  // other kernels, other times
  agent.version = hello.version;
  if (agent.host != hello.host) agent.line = {};  // it has moved
  agent.host = hello.host;
  agent.relay = hello.relay;
  agent.labels = hello.labels;
  agent.programs = {hello.runs_programs, hello.code_from, hello.program_limits};
  // A measured speed outlives the reconnect of the same device.
  const std::vector<Device> before = agent.devices;
  for (Device device : hello.devices) {
    for (const Device& old : before) {
      if (device.gflops == 0 && is_same_device(old, device) && old.name == device.name) {
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
  std::ranges::sort(agent.devices, {}, &Device::index);  // one that comes may fill a vacant number
  forget_stale_blocks(agent, before);
}

void welcome(Transaction& tx, AgentId agent, ConnectionId connection,
             const std::vector<ReplicaId>& keep, const std::vector<ReplicaId>& claimed) {
  const Options& options = tx.options();
  std::vector<ReplicaId> all = claimed;
  all.insert(all.end(), keep.begin(), keep.end());
  tx.send_to(connection,
             Welcome{agent, tx.state().agents.at(agent).incarnation, options.heartbeat_every,
                     options.lease, std::move(all), living_relays(tx.state())});
}

const HeldReplica* find_held(const Hello& hello, const ReplicaRecord& replica) {
  const auto held = std::ranges::find_if(hello.replicas, [&](const HeldReplica& candidate) {
    return candidate.replica == replica.id && candidate.store == replica.store;
  });
  return held == hello.replicas.end() ? nullptr : &*held;
}

// Whether the replica is still loading. Its agent may not even have received the Assign.
bool on_its_way(const ReplicaRecord& replica) { return replica.held_round < 0; }

void fail_missing(Transaction& tx, const std::vector<ReplicaId>& missing, bool same_process) {
  for (const ReplicaId replica : missing) {
    if (!is_live(tx.state(), replica)) continue;
    fail_replica(tx, replica,
                 same_process ? ReplicaFailure::kTrainerExited : ReplicaFailure::kAgentRestarted,
                 same_process ? "the agent returned without this replica"
                              : "its agent was restarted and did not find its trainer");
  }
}

// The replica was given up while its agent was away, its job has ended, or it belongs to a history
// that a restore has ended.
void say_too_late(Transaction& tx, AgentId agent, const HeldReplica& held) {
  const JobRecord* job = tx.state().jobs.find(held.job);
  if (job == nullptr || held.key.round <= 0) return;
  const bool over = is_terminal(job->phase);
  const std::string known = job->removed_at.ns != 0 ? "the job was removed"
                            : over ? std::string("the job is ") + to_string(job->phase)
                                   : "the job is at round " + std::to_string(job->committed_round) +
                                         " of epoch " + std::to_string(job->epoch);
  tx.event(over ? Severity::kInfo : Severity::kWarning, event_kind::kReplicaReturned,
           {.job = held.job, .agent = agent, .replica = held.replica, .round = held.key.round},
           to_string(held.replica) + " of " + tx.state().agents.at(agent).name +
               " returned too late and is released: it holds round " +
               std::to_string(held.key.round) + " of epoch " + std::to_string(held.key.epoch) +
               ", " + known);
}

// Tells a returning replica the committed round, if its job took it over in a new epoch or counts
// on the state that it joined with. The replica may have missed that news.
void tell_epoch(Transaction& tx, ReplicaId id, const HeldReplica& held) {
  const ReplicaRecord& replica = tx.state().replicas.at(id);
  const JobRecord& job = tx.state().jobs.at(replica.job);
  const bool taken_over = replica.epoch == job.epoch && replica.held_round >= 0 &&
                          replica.held_round == job.committed_round;
  if (!taken_over || held.key.round != job.committed_round) return;
  if (held.key.epoch == job.epoch && replica.source.kind != SourceKind::kPeer) return;
  tell_to_go_on(tx, id);
}

// Whether what the agent keeps is signed with the newest key and names the committed digests.
bool is_proved(const State& state, const HeldReplica& held) {
  const CommitProof& proof = held.record.proof;
  return !proof.anchors.empty() && !state.record_keys.empty() &&
         proof.key_id == state.record_keys.back().id;
}

// Replicas that the host still runs continue with what they hold, whichever process of the agent
// names them. Replicas that the hello does not name are gone.
void resume(Transaction& tx, AgentId agent, ConnectionId connection, const Hello& hello,
            bool same_process) {
  std::vector<ReplicaId> claimed, refused, keep, missing;
  begin_claims(tx, agent);
  for (const HeldReplica& held : hello.replicas) {
    const ReplicaRecord* known = tx.state().replicas.find(held.replica);
    const ClaimVerdict verdict = claim_newer_state(tx, agent, held);
    if (verdict == ClaimVerdict::kAccepted) {
      claimed.push_back(held.replica);
    } else if (verdict == ClaimVerdict::kRefused) {
      refused.push_back(held.replica);
    } else if (known == nullptr || known->store != held.store) {
      say_too_late(tx, agent, held);
    }
  }
  for (const ReplicaId replica : replicas_of(tx.state(), agent)) {
    if (std::ranges::count(claimed, replica) > 0) continue;
    const ReplicaRecord& record = tx.state().replicas.at(replica);
    const bool running =
        find_held(hello, record) != nullptr && std::ranges::count(refused, replica) == 0;
    (running || (same_process && on_its_way(record)) ? keep : missing).push_back(replica);
  }
  for (const ReplicaId replica : keep) come_back(tx, replica);
  welcome(tx, agent, connection, keep, claimed);
  for (const ReplicaId replica : keep) {
    const HeldReplica* held = find_held(hello, tx.state().replicas.at(replica));
    if (held != nullptr) tell_epoch(tx, replica, *held);
    tell_copies_again(tx, replica);
    catch_up(tx, replica);
    if (held != nullptr && !is_proved(tx.state(), *held)) renew_record(tx, replica);
  }
  fail_missing(tx, missing, same_process);
  refresh_agent(tx, agent);
}

void lose(Transaction& tx, AgentId agent, AgentGone gone, const std::string& why) {
  VolatileState& state = tx.volatile_state();
  if (Presence* presence = state.presence.find(agent)) {
    if (presence->connected) {
      state.by_connection.erase(presence->connection);
      tx.disconnect(presence->connection);
    }
    state.presence.erase(agent);
  }
  end_measuring(tx, agent);
  transition(tx, agent, AgentState::kGone, gone);
  tell_relays(tx);
  for (const ReplicaId replica : replicas_of(tx.state(), agent)) {
    if (!is_live(tx.state(), replica)) continue;
    if (gone == AgentGone::kLost && can_be_absent(tx.state(), replica)) {
      become_absent(tx, replica, why);
    } else {
      fail_replica(tx, replica, ReplicaFailure::kAgentLost, why);
    }
  }
  end_stay(tx.agent(agent).uptime, tx.now());
  const std::string& name = tx.state().agents.at(agent).name;
  tx.event(gone == AgentGone::kLeft ? Severity::kInfo : Severity::kWarning, event_kind::kAgentGone,
           {.agent = agent}, "agent " + name + " is gone: " + why);
}

void begin_stay(Transaction& tx, AgentId id) {
  AgentRecord& agent = tx.agent(id);
  end_stay(agent.uptime, tx.now());
  agent.uptime.since = tx.now();
  if (agent.state != AgentState::kJoining) transition(tx, id, AgentState::kJoining);
  transition(tx, id, AgentState::kIdle);
}

void say_who_came(Transaction& tx, AgentId id, const Hello& hello, bool same_process) {
  if (same_process) {
    return tx.event(Severity::kInfo, event_kind::kAgentReturned, {.agent = id},
                    "agent " + hello.name + " is back");
  }
  tx.event(Severity::kInfo, event_kind::kAgentJoined, {.agent = id},
           "agent " + hello.name + " joined with " + std::to_string(hello.devices.size()) +
               (hello.devices.size() == 1 ? " device" : " devices"));
}

// Agents with an open stream that have been silent for so long.
std::vector<AgentId> silent_for(const Transaction& tx, Duration limit) {
  std::vector<AgentId> silent;
  for (const auto& [id, presence] : tx.state().presence) {
    const bool over = tx.now() >= tx.deadline(presence.last_seen, limit);
    if (presence.connected && over) silent.push_back(id);
  }
  return silent;
}

// Agents whose leases are over. Those that fell silent together lapse together: a line that was cut
// for all of them must not look, for a moment, as if some were still there to continue without the
// others.
std::vector<std::pair<AgentId, std::string>> lapsed(const Transaction& tx) {
  const Options& options = tx.options();
  std::vector<std::pair<AgentId, std::string>> lost;
  const bool any = !silent_for(tx, options.lease).empty();
  const Duration together = options.lease - options.heartbeat_every - options.heartbeat_every / 2;
  for (const AgentId id : silent_for(tx, any ? together : options.lease)) {
    lost.emplace_back(id, "silent for longer than its lease");
  }
  for (const auto& [id, presence] : tx.state().presence) {
    if (presence.connected) continue;
    const Duration grace = presence.lost_at - presence.hung_up_at;
    if (tx.now() < tx.deadline(presence.hung_up_at, grace)) continue;
    lost.emplace_back(id, "its connection was not restored");
  }
  return lost;
}

// Loses the agents that hold a round up for too long. Returns when the next one is due.
std::optional<Instant> lose_who_holds_up(Transaction& tx) {
  const HoldUps found = find_hold_ups(tx);
  for (const AgentId id : found.over) {
    if (!is_connected(tx.state(), id)) continue;  // it holds up more than one round
    lose(tx, id, AgentGone::kLost, "silent while a round waited for it alone");
  }
  return found.wakeup_at;
}

void end_quarantines(Transaction& tx) {
  std::vector<AgentId> over;
  for (const auto& [id, agent] : tx.state().agents) {
    if (is_quarantined(agent) && tx.now() >= agent.health_record.quarantined_until)
      over.push_back(id);
  }
  for (const AgentId id : over) end_quarantine(tx, id, "its quarantine is over");
}

// The last time at which the process before this one is known to have worked.
Instant last_written(const State& state) {
  Instant last;
  for (const auto& [id, job] : state.jobs) last = std::max(last, job.updated_at);
  for (const auto& [id, agent] : state.agents) last = std::max(last, agent.updated_at);
  for (const auto& [id, replica] : state.replicas) last = std::max(last, replica.updated_at);
  return last;
}

// A job fails by itself, so that the process goes on.
void fail_corrupt_jobs(Transaction& tx) {
  std::vector<std::pair<JobId, std::string>> corrupt;
  for (const auto& [id, job] : tx.state().jobs) {
    if (is_terminal(job.phase)) continue;
    if (std::string why = why_corrupt(tx.state(), job); !why.empty()) corrupt.emplace_back(id, why);
  }
  for (const auto& [id, why] : corrupt) {
    set_aside(tx, id);
    finish_job(tx, id, JobPhase::kFailed, JobReason::kCorruptRecord,
               "its record is corrupt: " + why +
                   "; submit it again with train.continue_from and its newest checkpoint");
  }
}

}  // namespace

void on_booted(Transaction& tx, const Booted& booted) {
  const State& state = tx.state();
  mend_records(tx);
  VolatileState& process = tx.volatile_state();
  const Instant last = last_written(state);
  process.lost_time.add(last, tx.now());
  process.known_until = last;
  put_off_rollbacks(tx, std::max(tx.now() - last, Duration()));
  process.booted_at = tx.now();
  const std::int64_t epoch = ++tx.counters().boot_epoch;
  tx.counters().store = booted.store;
  use_record_keys(process, booted.record_keys);
  for (const auto& [id, agent] : state.agents) {
    if (agent.state == AgentState::kGone) continue;
    process.presence.put(id, {.connection = {},
                              .connected = false,
                              .last_seen = tx.now(),
                              .hung_up_at = tx.now(),
                              .lost_at = tx.now() + tx.options().boot_grace});
    process.next_lease_scan = tx.now() + kLeaseScanEvery;
  }
  for (const auto& [id, job] : state.jobs) {
    if (job.phase == JobPhase::kTraining) set_reason(tx, id, JobReason::kReconnecting);
  }
  tx.event(Severity::kInfo, event_kind::kCoordinatorStarted, {},
           "coordinator started, boot " + std::to_string(epoch));
  process.relays = living_relays(state);
  fail_corrupt_jobs(tx);
  begin_restoring(tx, booted.found);
  look_through_soon(tx);
}

void on_hello(Transaction& tx, const AgentHello& said) {
  const ConnectionId connection = said.connection;
  const Hello& hello = said.hello;
  const AgentRecord* known = find_by_uid(tx.state(), hello.uid);
  if (known != nullptr && is_overtaken(tx.state(), known->id, connection)) {
    return tx.disconnect(connection);
  }
  if (auto error = refusal(tx.state(), hello, known)) {
    tx.event(Severity::kWarning, event_kind::kAgentRefused,
             {.agent = known == nullptr ? AgentId() : known->id},
             "agent " + hello.name + " refused: " + to_string(*error));
    tx.send_to(connection, Refused{std::move(*error)});
    tx.disconnect(connection);
    return;
  }
  const AgentId id = known == nullptr ? create_agent(tx, said) : known->id;
  const bool same_process =
      hello.incarnation.n != 0 && hello.incarnation == tx.state().agents.at(id).incarnation;
  const bool stayed = tx.state().agents.at(id).state != AgentState::kGone;
  take_connection(tx, id, said);
  if (are_renumbered(tx.state().agents.at(id).devices, hello.devices)) {
    forget_device_failures(tx, id);
  }
  forget_past_refusals(tx.agent(id), hello.devices, !same_process);
  const std::vector<Device> before = tx.state().agents.at(id).devices;
  describe(tx.agent(id), hello);
  note_devices_of_hello(tx, id, before, same_process);
  if (!same_process) {
    AgentRecord& agent = tx.agent(id);
    const Incarnation floor = tx.state().counters.incarnation_floor;
    agent.incarnation.n = std::max({agent.incarnation.n, hello.incarnation.n, floor.n}) + 1;
    forget_refusals(tx, id);  // its files may have been mended
  }
  if (!same_process || !stayed) begin_stay(tx, id);
  say_who_came(tx, id, hello, same_process);
  resume(tx, id, connection, hello, same_process);
  tell_relays(tx);
  want_line_later(tx, id);
}

void on_hung_up(Transaction& tx, ConnectionId connection) {
  VolatileState& state = tx.volatile_state();
  const AgentId* agent = state.by_connection.find(connection);
  if (agent == nullptr) return;  // an older stream of an agent that already came back
  const AgentId id = *agent;
  state.by_connection.erase(connection);
  end_measuring(tx, id);
  Presence& presence = state.presence.at(id);
  presence.connected = false;
  presence.hung_up_at = tx.now();
  // A line that was cut shows late: by then most of the lease may be over.
  presence.lost_at =
      std::min(tx.now() + tx.options().reconnect_grace,
               std::max(tx.now(), tx.deadline(presence.last_seen, tx.options().lease)));
  tx.event(Severity::kWarning, event_kind::kAgentDisconnected, {.agent = id},
           "agent " + tx.state().agents.at(id).name + " lost its connection");
}

void on_goodbye(Transaction& tx, AgentId agent, const Goodbye& goodbye) {
  if (tx.state().agents.at(agent).state != AgentState::kDraining) {
    transition(tx, agent, AgentState::kDraining);
  }
  lose(tx, agent, AgentGone::kLeft, goodbye.reason.empty() ? "it left" : goodbye.reason);
}

void on_device_measured(Transaction& tx, AgentId agent, const DeviceMeasured& measured) {
  AgentRecord& record = tx.agent(agent);
  const std::vector<Device> before = record.devices;
  for (Device& device : record.devices) {
    if (device.index != measured.device.index) continue;
    const Device known = std::exchange(device, measured.device);
    const bool of_memory_only = device.memory != known.memory && device.gflops == known.gflops;
    if (!of_memory_only) tx.volatile_state().slow_devices.erase({agent, device.index});
    if (!device.uuid.empty()) continue;  // a trainer does not know which card it has
    device.uuid = known.uuid;
    device.total = known.total;
  }
  forget_stale_blocks(record, before);
}

void scan_leases(Transaction& tx) {
  VolatileState& state = tx.volatile_state();
  if (!state.next_lease_scan || tx.now() < *state.next_lease_scan) return;
  for (const auto& [id, why] : lapsed(tx)) lose(tx, id, AgentGone::kLost, why);
  const Instant next = tx.now() + kLeaseScanEvery;
  const Instant next_hold_up = lose_who_holds_up(tx).value_or(next);
  end_quarantines(tx);
  state.next_lease_scan.reset();
  if (!state.presence.empty()) state.next_lease_scan = std::min(next, next_hold_up);
}

}  // namespace shoal::coordinator
