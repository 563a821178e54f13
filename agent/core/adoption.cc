// Takes over the work of trainers that an earlier start of the daemon left, and of trainers that
// lost their stream and attach again.
#include "agent/core/state.h"

namespace shoal::agent {

// Its number stays reserved, so that no other process gets it.
void Agent::State::await(const LeftTrainer& left) {
  const auto slot = static_cast<std::size_t>(left.trainer.slot);
  const std::size_t most =
      options.devices.size() * static_cast<std::size_t>(options.trainers_per_device_max);
  const bool fits = left.trainer.slot >= 0 && slot < most && left.device >= 0 &&
                    is_first(left.device) &&
                    (!is_first(left.trainer.slot) || left.trainer.slot == left.device);
  if (!fits) return emit(KillTrainer{left.trainer, true, "this agent has no such device"});
  const Device& device = options.devices[static_cast<std::size_t>(left.device)];
  while (trainers.size() <= slot) {
    trainers.push_back(
        {.device = device, .backoff = Backoff(options.restart_first, options.restart_cap)});
  }
  Trainer& trainer = trainers[slot];
  if (trainer.state != TrainerState::kDown) return drop();
  move(trainer.state, TrainerEvent::kStart);
  trainer.device = device;
  trainer.generation = left.trainer.generation;
  trainer.started_at = now;
  trainer.left = true;
  trainer.due = now + options.gather_limit;
}

bool Agent::State::is_gathering() const {
  for (const Trainer& trainer : trainers) {
    if (trainer.left) return true;
  }
  for (const auto& [id, replica] : replicas) {
    if (replica.state == ReplicaState::kLoading) return true;
  }
  return false;
}

void Agent::State::open_gathered_link() {
  const bool first = link == LinkState::kDown && link_id.n == 0 && link_due;
  if (first && running() && !is_gathering()) open_link();
}

// Before the first Hello the trainer is the only one to know what it works on. If it said Loaded
// before, it repeats that next.
void Agent::State::adopt(std::int32_t slot, const Assign& held) {
  if (held.device != trainers[static_cast<std::size_t>(slot)].device.index) {
    return kill_trainer(slot, "it works on another device than its own");
  }
  if (replicas.contains(held.replica)) return;
  if (link_id.n != 0) {
    return emit(SendTrainer{trainer_id(slot), Release{held.replica, ReleaseReason::kReplaced}});
  }
  trainers[static_cast<std::size_t>(slot)].runs = runs_of(held);
  Replica& replica = take_on(held, slot);
  move(replica.state, ReplicaEvent::kLoad);
  replica.due = now + options.load_limit;
}

// Messages that were in flight may be lost in either direction: this repeats the load, the
// coordinator the rest.
void Agent::State::attached_again(const TrainerAttached& input) {
  const std::int32_t slot = input.trainer.slot;
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  trainer.attached = true;
  trainer.releasing = trainer.unresponsive = false;  // the trainer says itself what it holds
  trainer.hears_relays = input.ready.hears_relays;
  trainer.protocol = input.ready.protocol;
  if (trainer.state == TrainerState::kStopping) {
    return emit(SendTrainer{trainer_id(slot), StopTrainer{}});
  }
  trainer.due.reset();
  tell_relays(slot);
  const auto& held = input.ready.holds;
  if (held) adopt(slot, *held);
  for (auto& [id, replica] : replicas) {
    if (replica.slot != slot) continue;
    outbox.forget_last_words(id);
    if (replica.state == ReplicaState::kLoading) say_load(replica);
    const bool lost = !held || held->replica != id;
    if (replica.state == ReplicaState::kServing && lost) replica.due = now + options.detach_limit;
  }
  load_what_is_ready();
  if (link != LinkState::kActive) return;
  emit(CloseLink{link_id});
  lose_link();
  link_due = now;
}

}  // namespace shoal::agent
