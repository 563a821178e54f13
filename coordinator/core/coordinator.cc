#include "coordinator/core/coordinator.h"

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "base/overloaded.h"
#include "coordinator/core/checkpoints/checkpoint_commands.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/checkpoints/keeping.h"
#include "coordinator/core/job_commands.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/membership.h"
#include "coordinator/core/removal.h"
#include "coordinator/core/replicas/copies.h"
#include "coordinator/core/replicas/device_health.h"
#include "coordinator/core/replicas/drain.h"
#include "coordinator/core/replicas/evaluation.h"
#include "coordinator/core/replicas/line_probes.h"
#include "coordinator/core/replicas/profiling.h"
#include "coordinator/core/replicas/program_models.h"
#include "coordinator/core/replicas/replicas.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/rounds/attempts.h"
#include "coordinator/core/rounds/catch_up.h"
#include "coordinator/core/rounds/commits.h"
#include "coordinator/core/rounds/rounds.h"
#include "coordinator/core/rounds/speeds.h"
#include "coordinator/core/state/movement.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kLatenessMin = milliseconds(500);  // less is usual on a busy machine

ReplicaId replica_of(const FromAgent& message) {
  return std::visit(
      [](const auto& body) {
        if constexpr (requires { body.replica; }) {
          return body.replica;
        } else {
          return ReplicaId();
        }
      },
      message);
}

// Inputs that lead to no immediate answer or record, except a heartbeat that shows a fault.
bool changes_nothing(const Input& input) {
  if (std::holds_alternative<CheckpointMoved>(input)) return true;
  const auto* said = std::get_if<AgentSaid>(&input);
  const auto* load = said == nullptr ? nullptr : std::get_if<LoadProgress>(&said->message);
  if (load != nullptr) return load->tensors.empty();
  return said != nullptr && (std::holds_alternative<Heartbeat>(said->message) ||
                             std::holds_alternative<Progress>(said->message) ||
                             std::holds_alternative<PipelineStats>(said->message));
}

bool is_heartbeat(const Input& input) {
  const auto* said = std::get_if<AgentSaid>(&input);
  return said != nullptr && std::holds_alternative<Heartbeat>(said->message);
}

void dispatch(Transaction& tx, AgentId agent, const FromAgent& message) {
  std::visit(
      Overloaded{
          [](const Heartbeat&) {},
          [](const Progress&) {},
          [](const PipelineStats&) {},
          [&](const LoadProgress& body) { on_model_told(tx, body); },
          [&](const DeviceMeasured& body) { on_device_measured(tx, agent, body); },
          [&](const BlockMeasured& body) { on_block_measured(tx, agent, body); },
          [](const LineMeasured&) {},  // for the driver: MeasureHostLine
          [&](const Loaded& body) { on_loaded(tx, body); },
          [&](const ReplicaFailed& body) { on_replica_failed(tx, body); },
          [&](const FromReplica<RoundReport>& m) { on_report(tx, m.replica, m.body); },
          [&](const FromReplica<Vote>& m) { on_vote(tx, m.replica, m.body); },
          [&](const FromReplica<ReduceFailed>& m) { on_reduce_failed(tx, m.replica, m.body); },
          [&](const FromReplica<Applied>& m) { on_applied(tx, m.replica, m.body); },
          [&](const FromReplica<Evaluated>& m) { on_evaluated(tx, m.replica, m.body); },
          [&](const FromReplica<CopiesHeld>& m) { on_copies_held(tx, m.replica, m.body); },
          [&](const CheckpointWritten& body) { on_checkpoint_written(tx, body); },
          [&](const CheckpointFailed& body) { on_checkpoint_failed(tx, body); },
          [&](const Goodbye& body) { on_goodbye(tx, agent, body); },
      },
      message);
}

// It was taken for unresponsive, and speaks.
void welcome_back(Transaction& tx, ReplicaId replica) {
  come_back(tx, replica);
  catch_up(tx, replica);
}

void note_service(VolatileState& process, const PipelineStats& stats) {
  const WatchedSpeed* speed = process.speeds.find(stats.replica);
  process.service[stats.replica].heard(stats.service, speed == nullptr ? 1 : speed->sharing);
}

void on_said(Transaction& tx, const AgentSaid& said) {
  const State& state = tx.state();
  VolatileState& process = tx.volatile_state();
  const AgentId* known = state.by_connection.find(said.connection);
  if (known == nullptr) return;  // an older stream
  const AgentId agent = *known;
  process.presence.at(agent).last_seen = tx.now();
  if (const auto* stats = std::get_if<PipelineStats>(&said.message)) {
    if (is_live(state, stats->replica)) note_service(process, *stats);
  }
  if (const auto* heartbeat = std::get_if<Heartbeat>(&said.message)) {
    on_device_samples(tx, agent, heartbeat->samples);
  }
  const ReplicaId replica = replica_of(said.message);
  const ReplicaRecord* record = replica ? state.replicas.find(replica) : nullptr;
  if (record != nullptr && record->agent == agent) {
    hear(tx, replica, said.message);
    note_speed(tx, replica, said.message);
    const bool speaks = !std::holds_alternative<ReplicaFailed>(said.message);
    if (speaks && record->state == ReplicaState::kAbsent) welcome_back(tx, replica);
    record = state.replicas.find(replica);
  }
  if (changes_nothing(said)) return;
  if (replica) {
    if (std::holds_alternative<ReplicaFailed>(said.message)) withdraw_claim(tx, agent, replica);
    if (is_claimed(state, agent, replica)) return;
    if (record == nullptr || record->agent != agent) {
      tx.send(agent, Release{replica, ReleaseReason::kReplaced});
      return;
    }
  }
  dispatch(tx, agent, said.message);
}

// It wanted to be woken earlier than it was: it stood still meanwhile.
void note_lateness(VolatileState& state, Instant now, std::optional<Instant> deadline) {
  if (deadline && now > *deadline + kLatenessMin) state.lost_time.add(*deadline, now);
}

void apply(Transaction& tx, const Input& input) {
  std::visit(Overloaded{
                 [&](const Booted& i) { on_booted(tx, i); },
                 [&](const AgentHello& i) { on_hello(tx, i); },
                 [&](const AgentSaid& i) { on_said(tx, i); },
                 [&](const AgentHungUp& i) { on_hung_up(tx, i.connection); },
                 [&](const SubmitJob& i) { on_submit(tx, i); },
                 [&](const CancelJob& i) { on_cancel(tx, i); },
                 [&](const PauseJob& i) { on_pause(tx, i); },
                 [&](const ResumeJob& i) { on_resume(tx, i); },
                 [&](const ChangeJob& i) { on_change(tx, i); },
                 [&](const CommandAgent& i) { on_command_agent(tx, i); },
                 [&](const CommandCheckpoint& i) { on_command_checkpoint(tx, i); },
                 [&](const RemoveJob& i) { on_remove_job(tx, i); },
                 [&](const CheckpointMoved& i) { note_store(tx, i.checkpoint, i.received); },
                 [&](const CheckpointUploaded& i) { on_checkpoint_uploaded(tx, i); },
                 [&](const CheckpointUploadFailed& i) { on_checkpoint_upload_failed(tx, i); },
                 [&](const RecordKeysChanged& i) { on_record_keys_changed(tx, i.record_keys); },
                 [&](const HostLineMeasured& i) { on_host_line_measured(tx, i); },
                 [](const Tick&) {},
             },
             input);
}

}  // namespace

Coordinator::Coordinator(const Options& options, const Snapshot& snapshot)
    : state_(std::make_unique<State>(load_state(options, snapshot))) {
  SHOAL_CHECK(validate(options).empty(), "options must be validated first");
}

Coordinator::~Coordinator() = default;

void Coordinator::step(Instant now, const Input& input, Effects& out) {
  const auto deadline = next_deadline();
  note_lateness(*state_, now, deadline);
  Transaction tx(*state_, now);
  apply(tx, input);
  // Most messages are heartbeats; they must not cost a look at every job.
  const bool shows_fault = is_heartbeat(input) && tx.activity() > 0;
  if (!changes_nothing(input) || shows_fault || (deadline && now >= *deadline)) {
    scan_leases(tx);
    advance_jobs(tx);
    measure_idle_lines(tx);
    keep_retention(tx);
  }
  tx.finish(out);
}

std::optional<Instant> Coordinator::next_deadline() const {
  std::optional<Instant> due = state_->next_lease_scan;
  for (const auto& next : {state_->next_retention, state_->lines.idle_due}) {
    if (next && (!due || *next < *due)) due = next;
  }
  for (const auto& [id, timers] : state_->timers) {
    if (timers.wakeup_at && (!due || *timers.wakeup_at < *due)) due = timers.wakeup_at;
  }
  return due;
}

Digest Coordinator::digest() const { return state_->digest(); }

}  // namespace shoal::coordinator
