// Trainer processes: started, watched, killed when they hang, started again with back-off. The
// first one of each device is always there; further ones come and go with their replicas. Those of
// an earlier start are in adoption.cc.
#include <algorithm>
#include <utility>

#include "agent/core/state.h"

namespace shoal::agent {
namespace {

struct SignalName {
  int number;
  const char* name;
};
constexpr SignalName kSignals[] = {{1, "SIGHUP"},   {2, "SIGINT"},   {3, "SIGQUIT"},
                                   {4, "SIGILL"},   {6, "SIGABRT"},  {7, "SIGBUS"},
                                   {8, "SIGFPE"},   {9, "SIGKILL"},  {11, "SIGSEGV"},
                                   {13, "SIGPIPE"}, {15, "SIGTERM"}, {24, "SIGXCPU"}};

std::string describe(const ProcessExit& exit) {
  std::string text =
      exit.known ? "exited with code " + std::to_string(exit.code) : std::string("ended");
  if (exit.signal != 0) {
    const auto* known = std::find_if(std::begin(kSignals), std::end(kSignals),
                                     [&](const SignalName& s) { return s.number == exit.signal; });
    text =
        "was ended by " + (known != std::end(kSignals) ? std::string(known->name)
                                                       : "signal " + std::to_string(exit.signal));
  }
  return exit.last_line.empty() ? text : text + ": " + exit.last_line;
}

Bytes usable(Bytes probed, Bytes measured) {
  return measured.count() > 0 ? std::min(probed, measured) : probed;
}

// Happens when only one of the two programs, trainer or agent, was replaced.
std::string other_protocol(std::int32_t its, const std::string& version) {
  return "it speaks protocol " + std::to_string(its) + ", shoal-agent " + version +
         " speaks protocol " + std::to_string(kProtocolVersionMin) + " to " +
         std::to_string(kProtocolVersion) +
         " (install both of one version and start the agent again)";
}

std::string process_name(const Trainer& trainer) {
  const std::string device = "device " + std::to_string(trainer.device.index);
  const TrainerSpec& runs = trainer.identity.runs;
  if (runs.kind == TrainerKind::kBuiltin) return "the trainer of " + device;
  return "the program " + runs.entry + " on " + device;
}

std::string seconds_text(Duration limit) { return std::to_string(limit.ms() / 1000) + " s"; }

}  // namespace

TrainerId Agent::State::trainer_id(std::int32_t slot) const {
  return {slot, trainers[static_cast<std::size_t>(slot)].generation};
}

Trainer* Agent::State::current(TrainerId id) {
  if (id.slot < 0 || static_cast<std::size_t>(id.slot) >= trainers.size()) return nullptr;
  Trainer& trainer = trainers[static_cast<std::size_t>(id.slot)];
  const bool known = trainer.generation == id.generation && trainer.state != TrainerState::kDown;
  return known ? &trainer : nullptr;
}

void Agent::State::start_trainer(std::int32_t slot) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  move(trainer.state, TrainerEvent::kStart);
  ++trainer.generation;
  trainer.started_at = now;
  trainer.due = now + options.attach_limit;
  trainer.attached = trainer.releasing = trainer.unresponsive = trainer.replaced = false;
  trainer.killed_because.clear();
  trainer.refused = RefusalCounts();
  trainer.identity = identity_for(slot);
  trainer.identified = true;
  const auto beside = std::count_if(trainers.begin(), trainers.end(), [&](const Trainer& other) {
    return other.device.index == trainer.device.index && other.state != TrainerState::kDown;
  });
  emit(StartTrainer{trainer_id(slot), trainer.device.index, static_cast<std::int32_t>(beside) - 1,
                    trainer.identity, data_for(slot)});
}

void Agent::State::attached(const TrainerAttached& input) {
  Trainer* trainer = current(input.trainer);
  if (trainer == nullptr) return drop();
  if (trainer->state != TrainerState::kStarting) return attached_again(input);
  move(trainer->state, TrainerEvent::kAttached);
  trainer->attached = true;
  trainer->worked_at = now;  // it has measured its device
  trainer->failed_starts = 0;
  trainer->left = false;
  trainer->hears_relays = input.ready.hears_relays;
  trainer->protocol = input.ready.protocol;
  trainer->due.reset();
  if (trainer->protocol < kProtocolVersionMin || trainer->protocol > kProtocolVersion) {
    return kill_trainer(input.trainer.slot, other_protocol(input.ready.protocol, options.version));
  }
  const bool program = trainer->identity.runs.kind == TrainerKind::kPython;
  if (is_first(input.trainer.slot) && !program) measured(input);
  tell_relays(input.trainer.slot);
  if (input.ready.holds) {
    adopt(input.trainer.slot, *input.ready.holds);
  } else if (!trainer->identified) {
    kill_trainer(input.trainer.slot,
                 "an earlier version of this agent started it, and it holds no replica");
  } else if (program) {
    retire(input.trainer.slot);  // one that was left, and has lost its replica
  }
  load_what_is_ready();
}

// A measurement beside other trainers says nothing about the device: its speed stays as it was.
void Agent::State::measured(const TrainerAttached& input) {
  Trainer& trainer = trainers[static_cast<std::size_t>(input.trainer.slot)];
  const Device& seen = input.ready.device;
  Device device = trainer.device;  // a trainer knows neither UUID nor what is built in
  device.name = seen.name, device.gflops = seen.gflops, device.bf16 = seen.bf16;
  if (!trainer.memory_read) device.memory = usable(trainer.device.memory, seen.memory);
  const bool alone = std::none_of(trainers.begin(), trainers.end(), [&](const Trainer& other) {
    return &other != &trainer && other.device.index == device.index &&
           other.state != TrainerState::kDown;
  });
  if (!alone && trainer.device.gflops > 0) device.gflops = trainer.device.gflops;
  trainer.device = device;
  say(DeviceMeasured{device});  // while the link is down the next Hello says it
}

// The trainer has released a replica.
void Agent::State::ready_again(std::int32_t slot) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (!std::exchange(trainer.releasing, false)) return drop();
  trainer.worked_at = now;
  trainer.due.reset();
  load_what_is_ready();
}

void Agent::State::detached(const TrainerDetached& input) {
  Trainer* trainer = current(input.trainer);
  if (trainer == nullptr) return drop();
  trainer->attached = false;
  end_measuring(input.trainer.slot, process_name(*trainer) + " is silent");
  if (!trainer->due || trainer->releasing) trainer->due = now + options.detach_limit;
}

void Agent::State::exited(const TrainerExited& input) {
  Trainer* trainer = current(input.trainer);
  if (trainer == nullptr) return drop();
  const bool started = trainer->state != TrainerState::kStarting;
  move(trainer->state, TrainerEvent::kExited);
  trainer->attached = trainer->left = false;
  trainer->due.reset();
  trainer->worked_at = now;
  trainer->last_exit = describe(input.exit);
  const bool early = input.exit.known && input.exit.code == 0 && input.exit.signal == 0;
  if (early && trainer->identity.runs.kind == TrainerKind::kPython)
    trainer->last_exit = "ended before its job: it " + trainer->last_exit;
  if (!trainer->killed_because.empty())
    trainer->last_exit = "was killed: " + trainer->killed_because;
  end_measuring(input.trainer.slot, process_name(*trainer) + " " + trainer->last_exit);
  if (!running()) {
    if (all_trainers_down()) finish(0, "stopped");
    return;
  }
  const bool program = trainer->identity.runs.kind == TrainerKind::kPython;
  const bool failed = !started && !program && !trainer->replaced;
  trainer->failed_starts = failed ? trainer->failed_starts + 1 : 0;
  if (now - trainer->started_at >= options.restart_reset) trainer->backoff.reset();
  const bool replaced = std::exchange(trainer->replaced, false);
  const bool orderly = replaced && input.exit.code == 0 && input.exit.signal == 0;
  if (is_first(input.trainer.slot) || is_taken(input.trainer.slot)) {
    trainer->due = orderly ? now : now + wait(trainer->backoff);
  }
  if (replaced) return;  // replicas that wait for this trainer wait for its next process
  const bool for_memory = input.exit.for_memory && trainer->killed_because.empty();
  fail_replicas_of(input.trainer.slot, process_name(*trainer) + " " + trainer->last_exit,
                   for_memory);
}

// A trainer speaks for its own replicas only; while the daemon drains, its messages are dropped.
void Agent::State::trainer_said(const TrainerSaid& input) {
  const Trainer* trainer = current(input.trainer);
  if (trainer == nullptr || trainer->state != TrainerState::kReady || !running()) return drop();
  struct {
    State& s;
    std::int32_t slot;
    bool known(ReplicaId id) {
      if (s.is_on(id, slot)) return true;
      s.drop();
      return false;
    }
    // Also a replica that has ended here: its checkpoint may come after it.
    bool is_its_own(ReplicaId id) {
      if (s.trainers[static_cast<std::size_t>(slot)].identity.replica == id) return true;
      s.drop();
      return false;
    }
    void keep(ReplicaId id, FromAgent message) {
      if (!known(id)) return;
      const auto said_at = s.say_now(message);
      s.outbox.keep(id, std::move(message), said_at);
    }
    void operator()(const TrainerReady&) { s.ready_again(slot); }
    void operator()(const Loaded& m) {
      if (!known(m.replica)) return;
      s.loaded(m);
      keep(m.replica, m);
    }
    void operator()(const ReplicaFailed& m) {
      if (known(m.replica)) s.trainer_gave_up(m);
    }
    void operator()(const Progress& m) {
      if (known(m.replica) && !s.say(m)) s.drop();
    }
    void operator()(const LoadProgress& m) {
      if (known(m.replica)) s.load_moved(m);
    }
    void operator()(const PipelineStats& m) {
      if (known(m.replica) && !s.say(m)) s.drop();
    }
    void operator()(const BlockMeasured& m) { s.block_measured(slot, m); }
    void operator()(const PortRefusals& m) { s.port_refused(slot, to_counts(m.refusals)); }
    void operator()(const FromReplica<RoundReport>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<Vote>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<ReduceFailed>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<Applied>& m) {
      if (s.is_on(m.replica, slot)) s.applied(m.replica, m.body);
      keep(m.replica, m);
    }
    void operator()(const FromReplica<Evaluated>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<CopiesHeld>& m) { keep(m.replica, m); }
    void operator()(const CheckpointReady& m) {
      if (is_its_own(m.replica)) s.checkpoint_ready(m);
    }
    void operator()(const CheckpointFailed& m) {
      if (is_its_own(m.replica)) s.checkpoint_failed(m);
    }
  } visitor{*this, input.trainer.slot};
  std::visit(visitor, input.message);
}

void Agent::State::exceeded(const TrainerExceeded& input) {
  if (current(input.trainer) == nullptr) return drop();
  kill_trainer(input.trainer.slot, input.because);
}

// It gets neither; it may have asked before it was given its present replica.
void Agent::State::overstepped(const TrainerOverstepped& input) {
  if (current(input.trainer) == nullptr) return drop();
  ++port_refusals[RefusalReason::kOtherMember];
}

// The first counts of an adopted trainer are not added, because the agent that left it reported
// them.
void Agent::State::port_refused(std::int32_t slot, const RefusalCounts& counts) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (trainer.refused) port_refusals += counts.since(*trainer.refused);
  trainer.refused = counts;
}

void Agent::State::kill_trainer(std::int32_t slot, std::string because) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (trainer.state != TrainerState::kStopping) move(trainer.state, TrainerEvent::kStop);
  trainer.due.reset();
  trainer.left = false;
  trainer.killed_because = std::move(because);
  emit(KillTrainer{trainer_id(slot), true, trainer.killed_because});
}

void Agent::State::trainer_due(std::int32_t slot) {
  const Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  switch (trainer.state) {
    case TrainerState::kDown:
      return start_trainer(slot);
    case TrainerState::kStarting:
      return kill_trainer(
          slot, trainer.left
                    ? "it did not attach again within " + seconds_text(options.gather_limit)
                    : "it did not attach within " + seconds_text(options.attach_limit));
    case TrainerState::kReady:
      if (trainer.attached) {
        return kill_trainer(
            slot, "it did not release a replica within " + seconds_text(options.release_limit));
      }
      return silenced(slot);
    case TrainerState::kStopping:
      return kill_trainer(slot, "it was told to stop, but its process did not end");
  }
}

// The stream of a trainer ended, but its process did not. The coordinator decides whether to wait
// for it: it may hold the only state of a stage, or return before the round has ended.
void Agent::State::silenced(std::int32_t slot) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  const std::string why = "its stream ended, but its process did not";
  const bool serves = std::ranges::any_of(replicas, [&](const auto& entry) {
    return entry.second.slot == slot && entry.second.state == ReplicaState::kServing;
  });
  if (!serves || std::exchange(trainer.unresponsive, true)) return kill_trainer(slot, why);
  trainer.due = now + options.unresponsive_limit;
  for (const auto& [id, replica] : replicas) {
    if (replica.slot != slot || replica.state != ReplicaState::kServing) continue;
    say_failed(id, ReplicaFailure::kUnresponsive,
               "the trainer of device " + std::to_string(trainer.device.index) + " hangs: " + why);
  }
}

void Agent::State::stop_trainer(std::int32_t slot) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  trainer.due.reset();
  if (trainer.state == TrainerState::kDown || trainer.state == TrainerState::kStopping) return;
  if (trainer.attached) {
    emit(SendTrainer{trainer_id(slot), StopTrainer{}});
  } else {
    emit(KillTrainer{trainer_id(slot), false, {}});
  }
  move(trainer.state, TrainerEvent::kStop);
}

void Agent::State::stop_trainers() {
  for (std::size_t i = 0; i < trainers.size(); ++i) stop_trainer(static_cast<std::int32_t>(i));
}

bool Agent::State::has_device(std::int32_t device) const {
  return device >= 0 && is_first(device) && std::ranges::count(options.vacant, device) == 0;
}

bool Agent::State::is_first(std::int32_t slot) const {
  return static_cast<std::size_t>(slot) < options.devices.size();
}

bool Agent::State::is_taken(std::int32_t slot) const {
  return std::any_of(replicas.begin(), replicas.end(),
                     [&](const auto& entry) { return entry.second.slot == slot; });
}

// The first trainer of the device that has no replica, and is not about to stop; else a new one.
std::optional<std::int32_t> Agent::State::slot_for(std::int32_t device) {
  std::int32_t mine = 0;
  for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(trainers.size()); ++slot) {
    const Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
    if (trainer.device.index != device) continue;
    ++mine;
    const bool leaving = !is_first(slot) && trainer.state == TrainerState::kStopping;
    if (!is_taken(slot) && !leaving) return slot;
  }
  if (mine >= options.trainers_per_device_max) return std::nullopt;
  const Device& known = trainers[static_cast<std::size_t>(device)].device;
  trainers.push_back(
      {.device = known, .backoff = Backoff(options.restart_first, options.restart_cap)});
  return static_cast<std::int32_t>(trainers.size()) - 1;
}

void Agent::State::kill_all_trainers() {
  for (std::size_t i = 0; i < trainers.size(); ++i) {
    if (trainers[i].state == TrainerState::kDown) continue;
    emit(KillTrainer{trainer_id(static_cast<std::int32_t>(i)), true, {}});
  }
}

bool Agent::State::all_trainers_down() const {
  return std::all_of(trainers.begin(), trainers.end(),
                     [](const Trainer& t) { return t.state == TrainerState::kDown; });
}

}  // namespace shoal::agent
