// The strikes at the coordinator's host, at whole hosts and at single bits: see injector.h.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "outer_opt/core/round/groups.h"
#include "tests/sim/injector.h"

namespace shoal::sim {

namespace {

// Long ones are seldom.
Duration outage(Prng& prng) { return seconds_f(5 * std::pow(60.0, prng.unit() * prng.unit())); }

// Enough others hold the same state for them to tell who is wrong.
constexpr int kHoldersMin = 3;

}  // namespace

void FaultInjector::strike_coordinator_host(Fault fault) {
  CoordinatorProcess& coordinator = world_.coordinator();
  if (!coordinator.answers()) return;
  if (fault == Fault::kCoordinatorPause) return pause_coordinator();
  if (fault == Fault::kTornWrite) return tear_write(200);
  if (fault == Fault::kFailedFsync) return coordinator.store().fail_next_fsync();  // counted there
  if (fault == Fault::kFullDisk) {
    return coordinator.store().fill_until(sim_.now() + some(seconds(5), seconds(40)));  // as above
  }
  if (fault != Fault::kClockJump) return restore(fault);
  const Duration ahead = some(seconds(-3600), seconds(3600));
  sim_.strike(fault, std::to_string(ahead.seconds()) + " s");
  coordinator.set_time_of_day(ahead);
  coordinator.crash();
}

// A minute's work at most is lost with the newest backups; the oldest are of 80 s ago.
void FaultInjector::restore(Fault fault) {
  CoordinatorProcess& coordinator = world_.coordinator();
  const std::size_t backups = coordinator.store().backups();
  if (backups == 0) return;
  const std::size_t back = prng_.below(backups);
  const bool alone = fault == Fault::kRestoreAlone;
  sim_.strike(fault, "of " + std::to_string(back) + " backups ago");
  for (auto& host : world_.hosts_) {
    if (alone) host->crash(false);  // trainers that wait for their agent as well
  }
  if (alone) world_.twin().unplug();
  coordinator.restore(back, alone);
}

void FaultInjector::pause_coordinator() {
  sim_.strike(Fault::kCoordinatorPause, "");
  world_.coordinator().pause();
  sim_.queue.after(outage(prng_), [this] { world_.coordinator().resume(); });
}

// Waits for a write to be under way.
void FaultInjector::tear_write(int tries) {
  CoordinatorProcess& coordinator = world_.coordinator();
  if (!sim_.faults_on || !coordinator.answers()) return;
  if (coordinator.store().idle()) {
    if (tries == 0) return;
    return sim_.queue.after(milliseconds(1), [this, tries] { tear_write(tries - 1); });
  }
  sim_.strike(Fault::kTornWrite, "of the coordinator");
  const bool kept = sim_.misbehave(Bug::kTakenForWhole);
  coordinator.crash(kept ? StoreCrash::kKeepTorn : StoreCrash::kTorn);
}

void FaultInjector::cut_all_agents() {
  const Duration length = outage(prng_);
  sim_.strike(Fault::kAllAgentsOut, std::to_string(length.seconds()) + " s");
  for (const auto& host : world_.hosts_) {
    world_.network().partition(host->host(), true, true, length);
  }
}

// One at a time, and never all.
void FaultInjector::freeze_host() {
  for (const auto& host : world_.hosts_) {
    if (host->frozen()) return;
  }
  Host& host = any_host();
  if (!host.alive() || sim_.options.hosts < 3) return;
  sim_.strike(Fault::kHostFrozen, "host " + std::to_string(host.host()));
  host.freeze();
}

void FaultInjector::start_twin() {
  Host& host = any_host();
  if (!host.alive() || sim_.options.is_reducer(host.host())) return;
  Host& twin = world_.twin();
  if (twin.alive()) return;
  sim_.strike(Fault::kTwinAgent, "of host " + std::to_string(host.host()));
  twin.boot_as(host);
  sim_.queue.after(some(seconds(5), seconds(60)), [&twin] { twin.unplug(); });
}

void FaultInjector::slow_loads() {
  Host& host = any_host();
  const Duration time = some(seconds(3), seconds(18));
  sim_.strike(Fault::kSlowLoad,
              "host " + std::to_string(host.host()) + " " + std::to_string(time.seconds()) + " s");
  host.slow_loads(sim_.now() + some(seconds(20), seconds(90)), time);
}

// The other groups agree without this one, and its members keep their own progress.
void FaultInjector::slow_group() {
  const Trainer& trainer = any_trainer();
  if (!trainer.reducing() || sim_.options.is_reducer(trainer.host())) return;
  if (!outer_opt::averages_in_groups(trainer.assignment().spec.sync)) return;
  sim_.strike(Fault::kSlowGroup, "host " + std::to_string(trainer.host()));
  world_.peers().slow(trainer.host(), some(seconds(5), seconds(20)),
                      static_cast<int>(prng_.range(200, 2000)));
}

// When the job has found out what its data are: else this host would be the one to tell.
void FaultInjector::replace_data() {
  for (const auto& [id, job] : world_.tables().jobs) {
    if (job.committed_round == 0) return;
  }
  Host& host = any_host();
  sim_.strike(Fault::kOtherData, "host " + std::to_string(host.host()));
  host.replace_data(sim_.now() + some(seconds(5), seconds(60)));
}

// It says so with its next hello, which follows at once.
void FaultInjector::claim_falsely() {
  Host& host = any_host();
  if (!host.alive() || host.frozen() || !world_.network().break_stream(host.host())) return;
  host.claim_falsely();
}

// Another stage lives on; one of which somebody keeps a copy is preferred.
void FaultInjector::lose_stage() {
  using Stage = std::pair<JobId, StageIndex>;
  std::map<Stage, std::set<int>> serving;
  std::map<Stage, std::set<int>> keeping;
  for (const auto& host : world_.hosts_) {
    for (const auto& trainer : host->trainers()) {
      if (!host->alive() || !trainer->held()) continue;
      const Assign& assign = trainer->assignment();
      serving[{assign.job, assign.stage}].insert(host->host());
      if (trainer->copies() == nullptr) continue;
      for (const CopyHeld& copy : trainer->copies()->held()) {
        keeping[{assign.job, copy.stage}].insert(host->host());
      }
    }
  }
  const auto outlives = [](const std::set<int>& those, const std::set<int>& lost) {
    return !std::ranges::includes(lost, those);
  };
  std::vector<Stage> all, copied;
  for (const auto& [stage, hosts] : serving) {
    const bool others = std::ranges::any_of(serving, [&](const auto& other) {
      return other.first.first == stage.first && outlives(other.second, hosts);
    });
    if (others) all.push_back(stage);
    if (others && outlives(keeping[stage], hosts)) copied.push_back(stage);
  }
  if (!copied.empty() && prng_.chance(0.8)) all = copied;
  if (all.empty()) return;
  const Stage lost = all[prng_.below(all.size())];
  sim_.strike(Fault::kStageLost, to_string(lost.first) + " stage " + std::to_string(lost.second));
  for (const int host : serving.at(lost)) world_.host(host).crash(true);
}

// Each of them is counted when it changes something.
void FaultInjector::flip(Fault fault) {
  if (fault == Fault::kFlippedFrame) {
    world_.peers().flip_next_frame(any_host().host());
  } else if (fault == Fault::kFlippedTransfer) {
    any_trainer().flip_next_transfer();
  } else if (fault == Fault::kFlippedMemory) {
    flip_memory();
  } else {
    flip_checkpoint();
  }
}

// Where one against many can be told from a majority that is wrong.
void FaultInjector::flip_memory() {
  std::map<std::tuple<RoundKey, StageIndex>, std::vector<Trainer*>> holders;
  for (const auto& host : world_.hosts_) {
    for (const auto& trainer : host->trainers()) {
      const auto held = trainer->held();
      if (!held || trainer->frozen() || sim_.tainted.contains(trainer->replica())) continue;
      if (outer_opt::averages_in_groups(trainer->assignment().spec.sync)) continue;
      holders[{*held, trainer->assignment().stage}].push_back(trainer.get());
    }
  }
  std::erase_if(holders, [](const auto& entry) { return entry.second.size() < kHoldersMin; });
  if (holders.empty()) return;
  auto it = holders.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(prng_.below(holders.size())));
  Trainer& trainer = *it->second[prng_.below(it->second.size())];
  sim_.strike(Fault::kFlippedMemory, to_string(trainer.replica()));
  trainer.flip_memory();
}

void FaultInjector::flip_checkpoint() {
  CoordinatorProcess& coordinator = world_.coordinator();
  if (prng_.chance(0.5) || !coordinator.has_files()) return any_host().flip_next_file();
  sim_.strike(Fault::kFlippedCheckpoint, "where it is stored");
  coordinator.flip_stored_bit(prng_.next());
}

}  // namespace shoal::sim
