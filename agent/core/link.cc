// The link to the coordinator: opening, greeting, losing, and what is said and heard on it.
#include <algorithm>
#include <span>

#include "agent/core/device_memory.h"
#include "agent/core/gpu_history.h"
#include "agent/core/state.h"
#include "base/wire_text.h"

namespace shoal::agent {
namespace {

constexpr int kExitToken = 4;
constexpr int kExitRefused = 1;
constexpr std::size_t kReasonMax = 500;
constexpr Duration kOwnWorkShows = seconds(30);  // in samples, after it has ended

bool is_final(Code code) {
  return code == Code::kUnauthenticated || code == Code::kPermissionDenied ||
         code == Code::kIncompatible;
}

}  // namespace

void Agent::State::open_link() {
  move(link, LinkEvent::kOpen);
  ++link_id.n;
  link_due = now + options.link_limit;
  Hello hello{.uid = options.uid,
              .name = options.name,
              .incarnation = welcome.incarnation,
              .version = options.version,
              .host = options.host,
              .labels = options.labels,
              .hears_relays = true,
              .runs_programs = options.programs.beneath_root,
              .code_from = options.programs.code_from,
              .program_limits = options.programs.limits};
  for (std::int32_t i = 0; is_first(i); ++i) {
    if (has_device(i)) hello.devices.push_back(trainers[static_cast<std::size_t>(i)].device);
  }
  hello_replicas.clear();
  for (const auto& [id, replica] : replicas) {
    hello.replicas.push_back(replica.held);
    hello_replicas.push_back(id);
  }
  hello_devices = hello.devices;
  emit(OpenLink{link_id, std::move(hello)});
}

void Agent::State::link_up(const LinkUp& input) {
  if (input.link != link_id || link != LinkState::kOpening) return drop();
  move(link, LinkEvent::kUp);
  link_due = now + options.welcome_limit;
}

void Agent::State::link_down(const LinkDown& input) {
  if (input.link != link_id || link == LinkState::kDown) return drop();
  lose_link();
  if (running() && is_final(input.error.code)) refused(input.error, to_string(input.error));
}

void Agent::State::lose_link() {
  if (link == LinkState::kActive) outbox.link_lost(now - options.settled_after);
  move(link, LinkEvent::kLost);
  heartbeat_due.reset();
  link_due.reset();
  if (running()) link_due = now + wait(link_backoff);
}

void Agent::State::hear(const CoordinatorSaid& input) {
  if (input.link != link_id || !running()) return drop();
  if (link == LinkState::kGreeting) return greet(input.message);
  if (link != LinkState::kActive) return drop();
  obey(input.message);
}

// The first message tells whether there is a session at all; nothing else may come before it.
void Agent::State::greet(const ToAgent& message) {
  if (const auto* refusal = std::get_if<Refused>(&message))
    return refused_by_coordinator(refusal->error);
  if (const auto* welcoming = std::get_if<Welcome>(&message)) return welcomed(*welcoming);
  drop();
}

void Agent::State::welcomed(const Welcome& message) {
  move(link, LinkEvent::kWelcome);
  link_backoff.reset();
  link_due.reset();
  welcome = message;
  heartbeat_due = now + welcome.heartbeat_every;
  told_samples = {};
  for (const ReplicaId id : hello_replicas) {
    const bool kept = std::find(message.keep.begin(), message.keep.end(), id) != message.keep.end();
    if (!kept && replicas.contains(id)) release({id, ReleaseReason::kReplaced});
  }
  confirm_identities(message.keep);
  for (const Device& told : hello_devices) {
    const Device& device = trainers[static_cast<std::size_t>(told.index)].device;
    if (device != told) say(DeviceMeasured{device});
  }
  for (FromAgent& kept : outbox.say_all(now)) say(std::move(kept));
  retry_uploads();
  take_relays(message.relays);
}

void Agent::State::take_relays(const std::vector<std::string>& addresses) {
  if (relays == addresses) return;
  relays = addresses;
  for (std::size_t slot = 0; slot < trainers.size(); ++slot) {
    tell_relays(static_cast<std::int32_t>(slot));
  }
}

void Agent::State::tell_relays(std::int32_t slot) {
  const Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  const bool listens = trainer.state == TrainerState::kReady && trainer.attached;
  if (relays && listens && trainer.hears_relays)
    emit(SendTrainer{trainer_id(slot), Relays{*relays}});
}

void Agent::State::refused(const Error& error, std::string sentence) {
  const bool token = error.code == Code::kUnauthenticated || error.code == Code::kPermissionDenied;
  finish(token ? kExitToken : kExitRefused, std::move(sentence));
}

void Agent::State::refused_by_coordinator(const Error& error) {
  refused(error, "the coordinator refused this agent: " + to_string(error));
}

void Agent::State::obey(const ToAgent& message) {
  struct {
    State& s;
    void operator()(const Welcome&) { s.drop(); }
    void operator()(const Refused& m) { s.refused_by_coordinator(m.error); }
    void operator()(const Assign& m) { s.assign(m); }
    void operator()(const Release& m) { s.release(m); }
    void operator()(const Relays& m) { s.take_relays(m.addresses); }
    void operator()(const ForgetCheckpoint& m) { s.forget_checkpoint(m.checkpoint); }
    void operator()(const ToReplica<WriteCheckpoint>& m) { s.write_checkpoint(m.replica, m.body); }
    void operator()(const ToReplica<PipelineView>& m) { s.forward(m.replica, m); }
    void operator()(const ToReplica<OpenRound>& m) { s.forward(m.replica, m); }
    void operator()(const ToReplica<CloseRound>& m) { s.forward(m.replica, m); }
    void operator()(const ToReplica<ReducePlan>& m) { s.forward(m.replica, m); }
    void operator()(const ToReplica<CommitRound>& m) {
      s.expect_commit(m.replica, m.body.record);
      s.forward(m.replica, m);
    }
    void operator()(const ToReplica<ResumeAt>& m) {
      s.expect_commit(m.replica, m.body.record);
      s.forward(m.replica, m);
    }
    void operator()(const ToReplica<AbortRound>& m) { s.forward(m.replica, m); }
    void operator()(const ToReplica<Evaluate>& m) { s.forward(m.replica, m); }
    void operator()(const ToReplica<KeepCopies>& m) { s.forward(m.replica, m); }
    void operator()(const ToReplica<KeepRecord>& m) { s.keep_record(m); }
    void operator()(const MeasureBlock& m) { s.measure_block(m); }
    void operator()(const MeasureLine& m) {
      s.say(LineMeasured{line_payload(m.id, m.answer_bytes), m.id});
    }
  } visitor{*this};
  std::visit(visitor, message);
}

void Agent::State::beat() {
  say(Heartbeat{++heartbeats, measured_host.resident, to_list(port_refusals), measured_host.relay,
                device_failures(), new_samples()});
  heartbeat_due = now + welcome.heartbeat_every;
}

// Those that differ from what this session has told.
std::vector<DeviceSample> Agent::State::new_samples() {
  std::vector<DeviceSample> fresh;
  for (const DeviceSample& sample : measured_host.samples) {
    DeviceSample& told = told_samples[sample.uuid];
    if (!is_news(told, sample)) continue;
    told = sample;
    fresh.push_back(sample);
  }
  return fresh;
}

// Its process may keep the device busy.
bool Agent::State::works(std::int32_t slot) const {
  const Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (trainer.state == TrainerState::kDown) return false;
  return trainer.state != TrainerState::kReady || trainer.releasing || trainer.measures ||
         trainer.identity.runs.kind == TrainerKind::kPython || is_taken(slot);
}

// The driver of a GPU tells how busy it is, not who keeps it so: others do where this agent has had
// no work on it for a while. GPUs that are no devices are those of a replica group, whose trainer
// is that of device 0. What others take of the processors was measured.
void Agent::State::tell_load_apart() {
  std::vector<Instant> worked_at(options.devices.size());
  for (std::size_t slot = 0; slot < trainers.size(); ++slot) {
    Trainer& trainer = trainers[slot];
    if (works(static_cast<std::int32_t>(slot))) trainer.worked_at = now;
    Instant& last = worked_at[static_cast<std::size_t>(trainer.device.index)];
    last = std::max(last, trainer.worked_at);
  }
  for (DeviceSample& sample : measured_host.samples) {
    const auto known = std::ranges::find(options.devices, sample.uuid, &Device::uuid);
    const std::size_t device =
        known == options.devices.end() ? 0 : static_cast<std::size_t>(known->index);
    if (!sample.use || device >= worked_at.size()) continue;
    if (options.devices[device].kind != DeviceKind::kCuda) continue;
    const bool is_others = now - worked_at[device] >= kOwnWorkShows;
    sample.use->busy_elsewhere = is_others ? sample.use->busy : 0;
  }
}

// Memory of a device follows what its driver or the kernel has, up and down. While the link is down
// the next Hello says it.
void Agent::State::host_measured(const HostMeasured& input) {
  measured_host = input;
  tell_load_apart();
  for (const MeasuredMemory& measured : input.memory) {
    for (Trainer& trainer : std::span(trainers).first(options.devices.size())) {
      Device& device = trainer.device;
      if (device.uuid != measured.uuid) continue;
      trainer.memory_read = true;
      if (!is_news(device.memory, measured.memory, device.total)) continue;
      device.memory = measured.memory;
      say(DeviceMeasured{device});
    }
  }
}

// The first start may fail for a reason that is over with the second one.
std::vector<DeviceFailure> Agent::State::device_failures() const {
  std::vector<DeviceFailure> failures;
  for (const Trainer& trainer : std::span(trainers).first(options.devices.size())) {
    if (trainer.failed_starts < 2 || failures.size() == kDevicesMax) continue;
    failures.push_back({trainer.device.index, valid_text(trainer.last_exit, kReasonMax)});
  }
  return failures;
}

bool Agent::State::say(FromAgent message) {
  if (link != LinkState::kActive) return false;
  emit(SendCoordinator{link_id, std::move(message)});
  return true;
}

std::optional<Instant> Agent::State::say_now(const FromAgent& message) {
  return say(message) ? std::optional(now) : std::nullopt;
}

}  // namespace shoal::agent
