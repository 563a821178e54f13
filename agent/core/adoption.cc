// Takes over the work of trainers that an earlier start of the daemon left, and of trainers that
// lost their stream and attach again.
#include <algorithm>

#include "agent/core/state.h"

namespace shoal::agent {

// Its number stays reserved, so that no other process gets it.
void Agent::State::await(const LeftTrainer& left) {
  const auto slot = static_cast<std::size_t>(left.trainer.slot);
  const std::size_t most =
      options.devices.size() * static_cast<std::size_t>(options.trainers_per_device_max);
  const bool fits = left.trainer.slot >= 0 && slot < most && has_device(left.device) &&
                    (!is_first(left.trainer.slot) || left.trainer.slot == left.device);
  if (!fits) return emit(KillTrainer{left.trainer, true, "this agent has no such device"});
  const Device device = trainers[static_cast<std::size_t>(left.device)].device;  // memory was read
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
  trainer.identity = left.identity.value_or(TrainerIdentity());
  trainer.identified = left.identity.has_value();
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

// ---- which replica a process is

void Agent::State::identify(std::int32_t slot, TrainerIdentity identity) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (trainer.identified && trainer.identity == identity) return;
  trainer.identity = std::move(identity);
  trainer.identified = true;
  emit(IdentifyTrainer{trainer_id(slot), trainer.identity});
}

// None: what the trainer says of itself is what this agent gave it.
std::optional<std::string> Agent::State::contradiction(std::int32_t slot,
                                                       const Assign& held) const {
  const TrainerIdentity& given = trainers[static_cast<std::size_t>(slot)].identity;
  const TrainerIdentity said = identity_of(held);
  if (said.replica != given.replica) {
    return "says that it is " + to_string(said.replica) + ", and this agent gave it " +
           (given.replica ? to_string(given.replica) : std::string("no replica"));
  }
  if (said == given) return std::nullopt;
  return "names another job, stage or program than this agent gave it with " +
         to_string(given.replica);
}

// A trainer never changes what this agent knows of it.
void Agent::State::pretends(std::int32_t slot, std::string what) {
  ++port_refusals[RefusalReason::kOtherMember];
  kill_trainer(slot, "it " + std::move(what));
}

// The roster of an earlier version does not tell what its trainers are. One is believed if no other
// trainer here says the same; it gets certificates once the coordinator's Welcome has kept its
// replica for this agent. Of two that say the same neither is believed.
void Agent::State::adopt_unidentified(std::int32_t slot, const Assign& held) {
  for (std::size_t other = 0; other < trainers.size(); ++other) {
    const bool same = trainers[other].identity.replica == held.replica &&
                      trainers[other].state != TrainerState::kDown &&
                      other != static_cast<std::size_t>(slot);
    if (!same) continue;
    if (!trainers[other].identified) {
      pretends(static_cast<std::int32_t>(other),
               "says that it is " + to_string(held.replica) + ", as another trainer does");
    }
    return pretends(slot, "says that it is " + to_string(held.replica) + ", which another is");
  }
  trainers[static_cast<std::size_t>(slot)].identity = identity_of(held);
}

// What an earlier version's trainer said of itself, once the coordinator has answered.
void Agent::State::confirm_identities(const std::vector<ReplicaId>& kept) {
  for (std::size_t slot = 0; slot < trainers.size(); ++slot) {
    const Trainer& trainer = trainers[slot];
    if (trainer.identified || trainer.left || trainer.state != TrainerState::kReady) continue;
    const bool confirmed = std::ranges::find(kept, trainer.identity.replica) != kept.end();
    if (confirmed) {
      identify(static_cast<std::int32_t>(slot), trainer.identity);
    } else {
      kill_trainer(static_cast<std::int32_t>(slot),
                   "the coordinator does not know it as " + to_string(trainer.identity.replica));
    }
  }
}

// The trainer knows best how far its replica is; which replica it is, this agent knows. If it said
// Loaded before, it repeats that next.
void Agent::State::adopt(std::int32_t slot, const Assign& held) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (held.device != trainer.device.index) {
    return kill_trainer(slot, "it works on another device than its own");
  }
  if (!trainer.identified) adopt_unidentified(slot, held);
  if (trainer.state == TrainerState::kStopping) return;  // it is not believed
  if (const auto what = contradiction(slot, held)) return pretends(slot, *what);
  if (replicas.contains(held.replica)) return;
  if (link_id.n != 0) {
    if (!trainer.identified) return kill_trainer(slot, "it came after the coordinator was asked");
    return emit(SendTrainer{trainer_id(slot), Release{held.replica, ReleaseReason::kReplaced}});
  }
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
