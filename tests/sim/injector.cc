// The strikes: see injector.h.
#include "tests/sim/injector.h"

#include <algorithm>
#include <string>
#include <vector>

namespace shoal::sim {

FaultInjector::FaultInjector(World& world)
    : world_(world), sim_(world.sim()), prng_(world.sim().prng_for(0xfa017)) {}

void FaultInjector::start() {
  for (std::size_t i = 0; i < kFaults; ++i) {
    const Fault fault = static_cast<Fault>(i);
    if (fault == Fault::kSlowGroup && !world_.in_groups_) continue;  // other runs stay alike
    if (sim_.options.mean_of(fault).ns > 0) arm(fault);
  }
}

void FaultInjector::arm(Fault fault) {
  const Duration wait = seconds_f(prng_.exponential(sim_.options.mean_of(fault).seconds()));
  sim_.queue.after(wait, [this, fault] {
    if (!sim_.faults_on) return;
    const bool delicate = fault == Fault::kTrainerCrash || fault == Fault::kPeerStreamLoss ||
                          fault == Fault::kStreamLoss || fault == Fault::kTrainerPause ||
                          fault == Fault::kAgentCrash || fault == Fault::kPartitionPeers ||
                          fault == Fault::kPeerOneWay || fault == Fault::kFlippedFrame ||
                          fault == Fault::kCoordinatorPause || fault == Fault::kCoordinatorCrash ||
                          fault == Fault::kSlowGroup;
    const bool only_then = fault == Fault::kPeerStreamLoss || fault == Fault::kSlowGroup;
    if (delicate && (only_then || prng_.chance(0.5))) {
      strike_at_the_worst_moment(fault, 300);
    } else {
      strike(fault);
    }
    arm(fault);
  });
}

Host& FaultInjector::any_host() {
  if (target_ != nullptr) return world_.host(target_->host());
  return *world_.hosts_[prng_.below(world_.hosts_.size())];
}

Trainer& FaultInjector::any_trainer() {
  if (target_ != nullptr) return *target_;
  auto& trainers = any_host().trainers();
  return *trainers[prng_.below(trainers.size())];
}

// Counted when the lie is told. One at a time, because two that lie together cannot be found. A
// trainer that has not begun may still begin much later, so it must forget the order.
void FaultInjector::begin_lie(Trainer& trainer, Fault how) {
  std::vector<Lie*> others;
  for (auto& host : world_.hosts_) {
    for (auto& other : host->trainers()) others.push_back(&other->lie());
  }
  if (std::ranges::any_of(others, &Lie::is_under_way)) return;
  for (Lie* other : others) other->end();
  next_lie_ = sim_.now() + seconds(30);
  trainer.lie().intend(how);
}

Trainer* FaultInjector::reducing_trainer() {
  std::vector<Trainer*> all;
  for (auto& host : world_.hosts_) {
    for (auto& trainer : host->trainers()) {
      if (trainer->reducing()) all.push_back(trainer.get());
    }
  }
  return all.empty() ? nullptr : all[prng_.below(all.size())];
}

void FaultInjector::strike_at_the_worst_moment(Fault fault, int tries) {
  if (!sim_.faults_on) return;
  target_ = reducing_trainer();
  if (target_ == nullptr && tries > 0) {
    return sim_.queue.after(milliseconds(20),
                            [this, fault, tries] { strike_at_the_worst_moment(fault, tries - 1); });
  }
  strike(fault);
  target_ = nullptr;
}

void FaultInjector::strike_at(Fault fault, ReplicaId replica) {
  target_ = replica == ReplicaId{} ? nullptr : world_.trainer_of(replica);
  strike(fault);
  target_ = nullptr;
}

void FaultInjector::strike(Fault fault) {
  switch (fault) {
    case Fault::kMessageDelay:
    case Fault::kReorder:
    case Fault::kDuplicate:
      return;  // by the networks, per message
    case Fault::kAgentCrash:
    case Fault::kAgentDiskLost:
    case Fault::kAgentRestart:
    case Fault::kTrainerCrash:
    case Fault::kAgentPause:
    case Fault::kTrainerPause:
    case Fault::kAgentDrain:
    case Fault::kSlowAgent:
    case Fault::kNonFinite:
    case Fault::kUploadFailure:
    case Fault::kReplicaError:
    case Fault::kMemoryLie:
    case Fault::kBadCard:
    case Fault::kSickCard:
    case Fault::kThrottledDevice:
    case Fault::kFalseNorm:
    case Fault::kFalseAverage:
      return strike_process(fault);
    case Fault::kCoordinatorCrash:
    case Fault::kCrashBetweenEffects:
      return crash_coordinator(fault);
    case Fault::kUserCancel:
    case Fault::kOperatorPause:
    case Fault::kOperatorCordon:
    case Fault::kOperatorDrain:
      return strike_by_command(fault);
    case Fault::kStreamLoss:
    case Fault::kPartitionCoordinator:
    case Fault::kPartitionOneWay:
    case Fault::kPartitionPeers:
    case Fault::kPeerStreamLoss:
    case Fault::kPeerOneWay:
    case Fault::kSlowLink:
    case Fault::kSlowDisk:
      return strike_network(fault);
    case Fault::kCoordinatorPause:
    case Fault::kClockJump:
    case Fault::kTornWrite:
    case Fault::kFailedFsync:
    case Fault::kFullDisk:
    case Fault::kRestoreUnderAgents:
    case Fault::kRestoreAlone:
      return strike_coordinator_host(fault);
    case Fault::kAllAgentsOut:
      return cut_all_agents();
    case Fault::kHostFrozen:
      return freeze_host();
    case Fault::kTwinAgent:
      return start_twin();
    case Fault::kSlowLoad:
    case Fault::kSlowGroup:
    case Fault::kOtherData:
    case Fault::kStageLost:
    case Fault::kFalseClaim:
    case Fault::kShortPart:
      return strike_a_host(fault);
    case Fault::kFlippedFrame:
    case Fault::kFlippedMemory:
    case Fault::kFlippedTransfer:
    case Fault::kFlippedCheckpoint:
      return flip(fault);
  }
}

void FaultInjector::strike_a_host(Fault fault) {
  if (fault == Fault::kSlowLoad) return slow_loads();
  if (fault == Fault::kSlowGroup) return slow_group();
  if (fault == Fault::kOtherData) return replace_data();
  if (fault == Fault::kStageLost) return lose_stage();
  if (fault == Fault::kShortPart) return any_host().shorten_next_part();
  claim_falsely();
}

void FaultInjector::strike_process(Fault fault) {
  Host& host = any_host();
  Trainer& trainer = any_trainer();
  if (host.frozen() || world_.host(trainer.host()).frozen()) return;
  const std::string on_host = "host " + std::to_string(host.host());
  const std::string on_trainer = "host " + std::to_string(trainer.host());
  if (fault == Fault::kAgentCrash || fault == Fault::kAgentDiskLost) {
    if (!host.alive()) return;
    sim_.strike(fault, on_host);
    host.crash(fault == Fault::kAgentDiskLost);
  } else if (fault == Fault::kAgentRestart) {
    if (!host.alive()) return;
    sim_.strike(fault, on_host);
    host.kill_daemon();
  } else if (fault == Fault::kAgentDrain) {
    if (!host.alive()) return;
    sim_.strike(fault, on_host);
    host.stop();
  } else if (fault == Fault::kAgentPause) {
    pause_agent();
  } else if (fault == Fault::kTrainerPause) {
    pause_trainer();
  } else if (fault == Fault::kTrainerCrash) {
    if (!trainer.alive()) return;
    sim_.strike(fault, on_trainer + (trainer.reducing() ? " in a reduce" : ""));
    trainer.kill(9);
  } else if (fault == Fault::kSlowAgent) {
    if (!trainer.busy()) return;
    sim_.strike(fault, on_trainer);
    trainer.slow(sim_.now() + some(seconds(5), seconds(60)), static_cast<int>(prng_.range(3, 40)));
  } else if (fault == Fault::kReplicaError) {
    if (!trainer.busy() || trainer.frozen()) return;
    sim_.strike(fault, on_trainer);
    constexpr ReplicaFailure kErrors[] = {ReplicaFailure::kDeviceLost, ReplicaFailure::kInternal,
                                          ReplicaFailure::kNonFiniteLoss};
    trainer.give_up(kErrors[prng_.below(3)]);
  } else if (fault == Fault::kMemoryLie) {
    const bool reducer = sim_.options.is_reducer(trainer.host());  // holds no replica's vectors
    if (reducer || !trainer.busy() || trainer.frozen()) return;
    sim_.strike(fault, on_trainer);
    trainer.run_out_of_memory();
  } else if (fault == Fault::kBadCard) {
    break_card(trainer);
  } else if (fault == Fault::kSickCard) {
    sicken_card(trainer);
  } else if (fault == Fault::kThrottledDevice) {
    throttle(trainer);
  } else if (fault == Fault::kNonFinite) {
    if (trainer.busy()) trainer.poison();  // counted when it reports
  } else if (fault == Fault::kFalseNorm || fault == Fault::kFalseAverage) {
    if (trainer.busy() && sim_.now() >= next_lie_) begin_lie(trainer, fault);
  } else if (fault == Fault::kUploadFailure) {
    host.fail_next_upload();  // counted when it fails
  }
}

// One at a time, where the others may be enough.
void FaultInjector::break_card(Trainer& trainer) {
  const SimOptions& options = sim_.options;
  const bool reducer = options.is_reducer(trainer.host());
  if (reducer || !trainer.busy() || trainer.frozen()) return;
  if (options.hosts * options.devices_per_host < 3) return;
  for (const auto& host : world_.hosts_) {
    if (host->has_bad_card()) return;
  }
  sim_.strike(Fault::kBadCard, "host " + std::to_string(trainer.host()));
  world_.host(trainer.host()).break_card(trainer.assignment().device);
  trainer.give_up(ReplicaFailure::kDeviceLost);
}

// In the middle of a round; its replica goes on.
void FaultInjector::sicken_card(Trainer& trainer) {
  Host& host = world_.host(trainer.host());
  const bool reducer = sim_.options.is_reducer(trainer.host());
  if (reducer || !trainer.busy() || trainer.frozen() || !host.alive()) return;
  if (host.has_sick_card()) return;
  sim_.strike(Fault::kSickCard, "host " + std::to_string(trainer.host()));
  host.fall_sick(trainer.assignment().device);
}

// Its replica goes on, and what is placed there meanwhile is as slow.
void FaultInjector::throttle(Trainer& trainer) {
  if (sim_.options.is_reducer(trainer.host()) || !trainer.busy() || trainer.frozen()) return;
  Host& host = world_.host(trainer.host());
  const std::int32_t device = trainer.assignment().device;
  if (host.device_speed(device) < 1) return;
  const double share = 0.05 + 0.45 * prng_.unit();
  sim_.strike(Fault::kThrottledDevice,
              "host " + std::to_string(trainer.host()) + " to " + std::to_string(share));
  host.throttle(device, share, sim_.now() + some(seconds(40), seconds(120)));
}

void FaultInjector::pause_agent() {
  Host& host = any_host();
  if (!host.alive() || host.paused()) return;
  sim_.strike(Fault::kAgentPause, "host " + std::to_string(host.host()));
  host.pause();
  sim_.queue.after(some(milliseconds(500), seconds(40)), [&host] { host.resume(); });
}

void FaultInjector::pause_trainer() {
  Trainer& trainer = any_trainer();
  if (!trainer.alive() || trainer.frozen()) return;
  sim_.strike(Fault::kTrainerPause, "host " + std::to_string(trainer.host()));
  trainer.pause();
  sim_.queue.after(some(milliseconds(500), seconds(40)), [this, &trainer] {
    if (!world_.host(trainer.host()).frozen()) trainer.resume();
  });
}

void FaultInjector::crash_coordinator(Fault fault) {
  CoordinatorProcess& coordinator = world_.coordinator();
  if (!coordinator.alive()) return;
  if (fault == Fault::kCrashBetweenEffects) {
    return coordinator.crash_after_effects(static_cast<int>(prng_.range(1, 12)));
  }
  sim_.strike(fault, "");
  coordinator.crash();
}

std::optional<JobId> FaultInjector::any_job() {
  std::vector<JobId> live;
  for (const auto& [id, job] : world_.tables().jobs) {
    if (!is_terminal(job.phase)) live.push_back(id);
  }
  if (live.empty() || !world_.coordinator().answers()) return std::nullopt;
  return live[prng_.below(live.size())];
}

void FaultInjector::strike_by_command(Fault fault) {
  if (fault == Fault::kUserCancel) return cancel_job();
  if (fault == Fault::kOperatorPause) return pause_job();
  take_out_of_work(fault);
}

void FaultInjector::cancel_job() {
  const auto job = any_job();
  if (!job) return;
  sim_.strike(Fault::kUserCancel, to_string(*job));
  world_.coordinator().cancel(*job);
}

// For longer than a round, or taken back while it is finished.
void FaultInjector::pause_job() {
  const auto job = any_job();
  if (!job) return;
  sim_.strike(Fault::kOperatorPause, to_string(*job));
  world_.coordinator().pause(*job);
  const Duration length =
      prng_.chance(0.5) ? some(milliseconds(10), seconds(3)) : some(seconds(3), seconds(60));
  sim_.queue.after(length, [this, id = *job] { world_.resume(id); });
}

// An operator does not take a second agent out before the first one is back.
void FaultInjector::take_out_of_work(Fault fault) {
  std::vector<AgentId> there;
  for (const auto& [id, agent] : world_.tables().agents) {
    if (agent.cordoned) return;
    if (agent.state != coordinator::AgentState::kGone) there.push_back(id);
  }
  if (there.empty() || !world_.coordinator().answers()) return;
  const AgentId agent = there[prng_.below(there.size())];
  sim_.strike(fault, to_string(agent));
  const bool drain = fault == Fault::kOperatorDrain;
  world_.coordinator().command(
      agent, drain ? coordinator::AgentVerb::kDrain : coordinator::AgentVerb::kCordon);
  sim_.queue.after(some(seconds(2), seconds(60)), [this, agent] { world_.put_back(agent); });
}

void FaultInjector::strike_network(Fault fault) {
  const int host = any_host().host();
  const std::string on_host = "host " + std::to_string(host);
  const Duration length = some(milliseconds(500), seconds(30));
  if (fault == Fault::kStreamLoss) {
    world_.network().break_stream(host);
  } else if (fault == Fault::kPartitionCoordinator) {
    sim_.strike(fault, on_host);
    world_.network().partition(host, true, true, length);
  } else if (fault == Fault::kPartitionOneWay) {
    const bool up = prng_.chance(0.5);
    sim_.strike(fault, on_host + (up ? " cannot be heard" : " hears nothing"));
    world_.network().partition(host, up, !up, length);
  } else if (fault == Fault::kPartitionPeers || fault == Fault::kPeerOneWay) {
    target_ = nullptr;
    const int other = any_host().host();
    if (other == host) return;
    const bool one_way = fault == Fault::kPeerOneWay;
    sim_.strike(fault, on_host + (one_way ? " to host " : " and host ") + std::to_string(other));
    one_way ? world_.peers().cut(host, other, length)
            : world_.peers().partition(host, other, length);
  } else if (fault == Fault::kPeerStreamLoss) {
    Trainer& a = any_trainer();
    target_ = nullptr;
    Trainer* other = reducing_trainer();
    Trainer& b = other != nullptr ? *other : any_trainer();
    if (&a == &b || !a.alive() || !b.alive() || !a.reducing() || !b.reducing()) return;
    sim_.strike(fault, on_host);
    world_.peers().break_paths(a, b);
  } else if (fault == Fault::kSlowLink) {
    sim_.strike(fault, on_host);
    world_.peers().slow(host, length, static_cast<int>(prng_.range(5, 200)));
  } else if (fault == Fault::kSlowDisk) {
    sim_.strike(fault, "of the coordinator");
    SimStore& store = world_.coordinator().store();
    store.set_delay(some(milliseconds(200), milliseconds(1500)));
    sim_.queue.after(length, [this, &store] { store.set_delay(sim_.options.write_delay); });
  }
}

}  // namespace shoal::sim
