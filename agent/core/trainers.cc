// One trainer process per device: started, watched, killed when it hangs, started again with
// back-off.
#include <algorithm>

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
  std::string text = "exited with code " + std::to_string(exit.code);
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

std::string seconds_text(Duration limit) { return std::to_string(limit.ms() / 1000) + " s"; }

}  // namespace

TrainerId Agent::State::trainer_id(std::int32_t device) const {
  return {device, trainers[static_cast<std::size_t>(device)].generation};
}

Trainer* Agent::State::current(TrainerId id) {
  if (id.device < 0 || static_cast<std::size_t>(id.device) >= trainers.size()) return nullptr;
  Trainer& trainer = trainers[static_cast<std::size_t>(id.device)];
  const bool known = trainer.generation == id.generation && trainer.state != TrainerState::kDown;
  return known ? &trainer : nullptr;
}

void Agent::State::start_trainer(std::int32_t device) {
  Trainer& trainer = trainers[static_cast<std::size_t>(device)];
  move(trainer.state, TrainerEvent::kStart);
  ++trainer.generation;
  trainer.started_at = now;
  trainer.due = now + options.attach_limit;
  trainer.attached = false;
  trainer.killed_because.clear();
  emit(StartTrainer{trainer_id(device)});
}

void Agent::State::attached(const TrainerAttached& input) {
  Trainer* trainer = current(input.trainer);
  if (trainer == nullptr || trainer->state != TrainerState::kStarting) return drop();
  move(trainer->state, TrainerEvent::kAttached);
  trainer->attached = true;
  trainer->due.reset();
  Device measured = input.ready.device;
  measured.index = input.trainer.device;
  measured.memory = usable(trainer->device.memory, measured.memory);
  trainer->device = measured;
  say(DeviceMeasured{measured});  // while the link is down the next Hello says it
  load_what_is_ready();
}

void Agent::State::detached(const TrainerDetached& input) {
  Trainer* trainer = current(input.trainer);
  if (trainer == nullptr) return drop();
  trainer->attached = false;
  if (!trainer->due) trainer->due = now + options.detach_limit;
}

void Agent::State::exited(const TrainerExited& input) {
  Trainer* trainer = current(input.trainer);
  if (trainer == nullptr) return drop();
  move(trainer->state, TrainerEvent::kExited);
  trainer->attached = false;
  trainer->due.reset();
  trainer->last_exit = describe(input.exit);
  if (!trainer->killed_because.empty())
    trainer->last_exit = "was killed: " + trainer->killed_because;
  if (!running()) {
    if (all_trainers_down()) finish(0, "stopped");
    return;
  }
  if (now - trainer->started_at >= options.restart_reset) trainer->backoff.reset();
  trainer->due = now + wait(trainer->backoff);
  fail_replicas_of(
      input.trainer.device,
      "the trainer of device " + std::to_string(input.trainer.device) + " " + trainer->last_exit);
}

// A trainer speaks for the replicas on its device only; while draining nobody listens any more.
void Agent::State::trainer_said(const TrainerSaid& input) {
  const Trainer* trainer = current(input.trainer);
  if (trainer == nullptr || trainer->state != TrainerState::kReady || !running()) return drop();
  struct {
    State& s;
    std::int32_t device;
    bool known(ReplicaId id) {
      if (s.on_device(id, device)) return true;
      s.drop();
      return false;
    }
    void keep(ReplicaId id, FromAgent message) {
      if (!known(id)) return;
      const auto said_at = s.say_now(message);
      s.outbox.keep(id, std::move(message), said_at);
    }
    void operator()(const TrainerReady&) { s.drop(); }
    void operator()(const Loaded& m) {
      if (!known(m.replica)) return;
      s.loaded(m);
      keep(m.replica, m);
    }
    void operator()(const ReplicaFailed& m) {
      if (known(m.replica)) s.fail_replica(m.replica, m.failure, m.detail);
    }
    void operator()(const Progress& m) {
      if (known(m.replica) && !s.say(m)) s.drop();
    }
    void operator()(const PipelineStats& m) {
      if (known(m.replica) && !s.say(m)) s.drop();
    }
    void operator()(const FromReplica<RoundReport>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<Vote>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<ReduceFailed>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<Applied>& m) { keep(m.replica, m); }
    void operator()(const FromReplica<Evaluated>& m) { keep(m.replica, m); }
    void operator()(const CheckpointReady& m) { s.checkpoint_ready(m); }
    void operator()(const CheckpointFailed& m) { s.checkpoint_failed(m); }
  } visitor{*this, input.trainer.device};
  std::visit(visitor, input.message);
}

void Agent::State::kill_trainer(std::int32_t device, std::string because) {
  Trainer& trainer = trainers[static_cast<std::size_t>(device)];
  if (trainer.state != TrainerState::kStopping) move(trainer.state, TrainerEvent::kStop);
  trainer.due.reset();
  trainer.killed_because = std::move(because);
  emit(KillTrainer{trainer_id(device), true});
}

void Agent::State::trainer_due(std::int32_t device) {
  const Trainer& trainer = trainers[static_cast<std::size_t>(device)];
  switch (trainer.state) {
    case TrainerState::kDown:
      return start_trainer(device);
    case TrainerState::kStarting:
      return kill_trainer(device, "it did not attach within " + seconds_text(options.attach_limit));
    case TrainerState::kReady:
    case TrainerState::kStopping:
      return kill_trainer(device, "its stream ended, but its process did not");
  }
}

void Agent::State::stop_trainers() {
  for (std::size_t i = 0; i < trainers.size(); ++i) {
    Trainer& trainer = trainers[i];
    trainer.due.reset();
    if (trainer.state == TrainerState::kDown || trainer.state == TrainerState::kStopping) continue;
    const TrainerId id = trainer_id(static_cast<std::int32_t>(i));
    if (trainer.attached) {
      emit(SendTrainer{id, StopTrainer{}});
    } else {
      emit(KillTrainer{id, false});
    }
    move(trainer.state, TrainerEvent::kStop);
  }
}

void Agent::State::kill_all_trainers() {
  for (std::size_t i = 0; i < trainers.size(); ++i) {
    if (trainers[i].state == TrainerState::kDown) continue;
    emit(KillTrainer{trainer_id(static_cast<std::int32_t>(i)), true});
  }
}

bool Agent::State::all_trainers_down() const {
  return std::all_of(trainers.begin(), trainers.end(),
                     [](const Trainer& t) { return t.state == TrainerState::kDown; });
}

}  // namespace shoal::agent
