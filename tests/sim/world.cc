// The phases of a run: see world.h.
#include "tests/sim/world.h"

#include <algorithm>

#include "outer_opt/core/round/groups.h"
#include "tests/sim/ambusher.h"
#include "tests/sim/injector.h"

namespace shoal::sim {

namespace {
constexpr std::int64_t kEventBudget = 3'000'000;
constexpr int kLooksMax = 1'000;              // of a user who waits for a job
constexpr Duration kPausedMax = seconds(65);  // what is left of a pause when the faults stop

const coordinator::JobRecord* job_named(const Tables& tables, const std::string& name) {
  for (const auto& [id, job] : tables.jobs) {
    if (job.spec.name == name) return &job;
  }
  return nullptr;
}

const coordinator::CheckpointRecord* newest_stored(const Tables& tables, JobId job) {
  const coordinator::CheckpointRecord* newest = nullptr;
  for (const auto& [id, checkpoint] : tables.checkpoints) {
    const bool stored = checkpoint.state == coordinator::CheckpointState::kStored;
    if (checkpoint.key.job != job || !stored) continue;
    if (newest == nullptr || newest->key < checkpoint.key) newest = &checkpoint;
  }
  return newest;
}

}  // namespace

World::World(const SimOptions& options, Bug bug, bool print_trace)
    : sim_(options, bug, print_trace),
      network_(sim_),
      peers_(sim_),
      coordinator_(sim_, network_),
      prng_(sim_.prng_for(0x3012d)) {
  network_.set_coordinator(&coordinator_);
  sim_.census = this;
  if (bug == Bug::kLostFsync) coordinator_.store().keep_history();
  const bool restores = options.mean_of(Fault::kRestoreUnderAgents).ns > 0 ||
                        options.mean_of(Fault::kRestoreAlone).ns > 0;
  if (restores) coordinator_.store().keep_backups();
  for (int i = 0; i < options.hosts + options.reducers; ++i) {
    hosts_.push_back(std::make_unique<Host>(sim_, network_, peers_, coordinator_, i));
    Host& host = *hosts_.back();
    host.on_exit = [this, &host] {
      const Duration wait =
          sim_.faults_on ? Duration{prng_.range(500'000'000, 15'000'000'000)} : seconds(1);
      sim_.queue.after(wait, [&host] { host.boot(); });
    };
  }
  twin_ =
      std::make_unique<Host>(sim_, network_, peers_, coordinator_, static_cast<int>(hosts_.size()));
  coordinator_.on_crash = [this] {
    sim_.queue.after(restart_delay_, [this] {
      if (!coordinator_.alive()) coordinator_.boot();
    });
  };
}

Trainer* World::trainer_of(ReplicaId replica) {
  for (int i = 0; i <= static_cast<int>(hosts_.size()); ++i) {
    for (auto& trainer : host(i).trainers()) {
      if (trainer->replica() == replica) return trainer.get();
    }
  }
  return nullptr;
}

std::vector<Census::Holder> World::holders(const RoundKey& key) const {
  std::vector<Holder> all;
  for (const auto& host : hosts_) {
    if (is_doubled(*host) || host->frozen() || host->leaving()) continue;
    for (const auto& trainer : host->trainers()) {
      if (trainer->frozen() || trainer->held() != key) continue;
      all.push_back({trainer->replica(), trainer->assignment().stage, out_since(*host)});
    }
  }
  return all;
}

std::vector<Census::Copy> World::copies(const RoundKey& key) const {
  std::vector<Copy> all;
  for (const auto& host : hosts_) {
    if (is_doubled(*host) || host->frozen() || host->leaving()) continue;
    for (const auto& trainer : host->trainers()) {
      if (trainer->frozen()) continue;
      if (trainer->copies() == nullptr) continue;
      for (const CopyHeld& held : trainer->copies()->held()) {
        if (held.key != key) continue;
        all.push_back({{trainer->replica(), held.stage, out_since(*host)}, held.copy});
      }
    }
  }
  return all;
}

// Identifies an agent: the coordinator goes by what it heard last of this identity.
bool World::is_doubled(const Host& host) const {
  if (twin_->alive() && twin_->uid() == host.uid()) return true;
  const int heard_from = coordinator_.heard_from(host.uid());
  return heard_from >= 0 && heard_from != host.host();
}

// Zero: in reach of the coordinator, for so long that it has heard of what is there.
Instant World::out_since(const Host& host) const {
  const Instant since = network_.out_since(host.host());
  if (host.paused())
    return since == Instant() ? host.paused_at() : std::min(since, host.paused_at());
  if (since != Instant()) return since;
  const Instant resumed = coordinator_.resumed_at();
  return sim_.now() - resumed < network_.settled() ? resumed : Instant();
}

void World::boot() {
  coordinator_.boot();
  for (auto& host : hosts_) host->boot();
}

bool World::step_until(Instant end) {
  while (!sim_.queue.empty() && sim_.queue.next_at() <= end) {
    sim_.queue.run_one();
    sim_.observe(&Checker::moment, tables());
    if (sim_.broken) return false;
    if (sim_.queue.executed() > kEventBudget) sim_.violate("liveness", "the run does not end");
  }
  return true;
}

void World::run_for(Duration length) {
  // An event at the end makes time get there.
  const Instant end = sim_.now() + length;
  sim_.queue.at(end, [] {});
  step_until(end);
}

bool World::run_until(const std::function<bool()>& condition, Duration limit) {
  const Instant end = sim_.now() + limit;
  while (!condition()) {
    if (sim_.broken || sim_.queue.empty() || sim_.queue.next_at() > end) return false;
    sim_.queue.run_one();
    sim_.observe(&Checker::moment, tables());
  }
  return true;
}

bool World::all_jobs_over() const {
  return std::all_of(tables().jobs.begin(), tables().jobs.end(),
                     [](const auto& entry) { return is_terminal(entry.second.phase); });
}

void World::schedule_users() {
  const std::int64_t span = sim_.options.safety.ns / 2;
  for (int i = 0; i < sim_.options.jobs; ++i) {
    const JobSpec spec = draw_job(sim_.options, prng_, i + 1);
    const Instant at = kStart + (i == 0 ? seconds(1) : Duration{prng_.range(0, span)});
    sim_.queue.at(at, [this, spec] { submit(spec); });
    in_groups_ |= outer_opt::averages_in_groups(spec.sync);
    if (i > 0 || sim_.options.more_rounds == 0) continue;
    continued_ = spec;
    sim_.queue.at(at + seconds(2), [this] { ask_for_more(kLooksMax); });
  }
}

// A user who looks every few seconds has a completed job continued by another one, unless nothing
// of it is kept.
void World::ask_for_more(int looks) {
  const auto* job = job_named(tables(), continued_->name);
  JobSpec more = *continued_;
  more.name += "-more";
  const bool over = job != nullptr && is_terminal(job->phase);
  const bool completed = over && job->phase == coordinator::JobPhase::kCompleted;
  const auto* cut = completed ? newest_stored(tables(), job->id) : nullptr;
  const bool in_vain = (over && cut == nullptr) || looks == 0;
  if (in_vain || job_named(tables(), more.name) != nullptr) return continued_.reset();
  if (over && coordinator_.answers()) {
    const Steps further(sim_.options.more_rounds * more.sync.every.count());
    more.train.continue_from = to_string(cut->id);
    more.train.steps = cut->step + further;
    coordinator_.submit(more);
  }
  sim_.queue.after(seconds(3), [this, looks] { ask_for_more(looks - 1); });
}

// A user tries again while the coordinator is away.
void World::submit(const JobSpec& spec) {
  if (coordinator_.answers()) return coordinator_.submit(spec);
  sim_.queue.after(seconds(1), [this, spec] { submit(spec); });
}

void World::put_back(AgentId id) {
  const auto agent = tables().agents.find(id);
  if (agent == tables().agents.end() || !agent->second.cordoned) return;  // maybe of a backup
  if (agent->second.state != coordinator::AgentState::kGone) {
    coordinator_.command(id, coordinator::AgentVerb::kUncordon);
  }
  sim_.queue.after(seconds(1), [this, id] { put_back(id); });
}

void World::resume(JobId id) {
  const auto job = tables().jobs.find(id);
  if (job == tables().jobs.end() || is_terminal(job->second.phase)) return;
  coordinator_.resume(id);
  sim_.queue.after(seconds(1), [this, id] {
    const auto still = tables().jobs.find(id);
    const bool waits =
        still != tables().jobs.end() && still->second.desired == coordinator::JobDesired::kPause;
    if (waits) resume(id);
  });
}

// An operator who knows that the devices are sound again looks every few seconds.
void World::forgive_memory() {
  for (const auto& [id, agent] : tables().agents) {
    const bool gone = agent.state == coordinator::AgentState::kGone;
    if (!gone && !agent.cordoned && !agent.refusals.empty()) {
      coordinator_.command(id, coordinator::AgentVerb::kUncordon);
    }
  }
  sim_.queue.after(seconds(5), [this] { forgive_memory(); });
}

void World::heal() {
  sim_.log("the faults stop");
  sim_.faults_on = false;
  network_.heal();
  peers_.heal();
  coordinator_.crash_after_effects(0);
  coordinator_.store().set_delay(sim_.options.write_delay);
  coordinator_.store().fill_until({});
  coordinator_.resume();
  if (!coordinator_.alive()) coordinator_.boot();
  forgive_memory();
  for (const auto& [id, agent] : tables().agents) {
    if (agent.cordoned) put_back(id);
  }
  for (const auto& [id, job] : tables().jobs) resume(id);
  heal_hosts();
}

void World::heal_hosts() {
  twin_->unplug();
  replace_frozen();
  for (auto& host : hosts_) {
    if (host->frozen()) continue;
    host->restore_memory();
    host->replace_cards();
    host->end_throttling();
    host->slow_loads({}, {});
    host->replace_data({});
    host->resume();
    host->boot();
    for (auto& trainer : host->trainers()) {
      trainer->resume();
      trainer->slow(sim_.now(), 1);
    }
  }
}

// All jobs pause for longer than measurements of lines count. Pauses that a fault began are over by
// then, because their end would end this one, too.
bool World::rest() {
  run_for(kPausedMax);
  if (sim_.broken) return false;
  for (const auto& [id, job] : tables().jobs) {
    if (!is_terminal(job.phase)) coordinator_.pause(id);
  }
  run_for(sim_.options.rest);
  if (sim_.broken) return false;
  for (const auto& [id, job] : tables().jobs) resume(id);
  return true;
}

// What stands still forever is replaced when the others are not enough for all jobs.
void World::replace_frozen() {
  std::int64_t devices = 0, needed = 0;
  for (const auto& host : hosts_) {
    const bool trains = !sim_.options.is_reducer(host->host()) && !host->frozen();
    devices += trains ? sim_.options.devices_per_host : 0;
  }
  for (const auto& [id, job] : tables().jobs) {
    if (is_terminal(job.phase)) continue;
    needed += job.spec.swarm.min_replicas * job.spec.swarm.stages;
  }
  const auto* first = continued_ ? job_named(tables(), continued_->name) : nullptr;
  if (first != nullptr && is_terminal(first->phase)) {  // another one takes its place
    needed += first->spec.swarm.min_replicas * first->spec.swarm.stages;
  }
  if (devices >= needed) return;
  for (auto& host : hosts_) {
    if (!host->frozen()) continue;
    host->crash(false);  // and the world starts it again
    host->thaw();
  }
}

void World::run() {
  run_phases();
  coordinator_.collect_transitions();
  for (auto& host : hosts_) host->collect_transitions();
}

void World::run_phases() {
  restart_delay_ = Duration{prng_.range(200'000'000, 20'000'000'000)};
  boot();
  schedule_users();
  FaultInjector injector(*this);
  injector.start();
  Ambusher ambusher(sim_, injector);
  if (!step_until(kStart + sim_.options.safety)) return;
  heal();
  if (sim_.options.rest.ns > 0 && !rest()) return;
  sim_.observe(&Checker::healed, tables());
  const Instant healed = sim_.now();
  const auto progressed = [this, then = tables().jobs] {
    return std::all_of(tables().jobs.begin(), tables().jobs.end(), [&](const auto& entry) {
      const coordinator::JobRecord& job = entry.second;
      const auto old = then.find(entry.first);
      const bool moved = old == then.end() || job.epoch != old->second.epoch
                             ? job.committed_round > 0
                             : job.committed_round > old->second.committed_round;
      return moved || is_terminal(job.phase) || job.phase == coordinator::JobPhase::kFinalizing;
    });
  };
  run_until(progressed, sim_.options.progress_limit());
  if (sim_.broken) return;
  recovery_ = sim_.now() - healed;
  sim_.observe(&Checker::progress_due, tables());
  if (sim_.broken) return;
  const auto over = [this] { return all_jobs_over() && !continued_; };
  run_until(over, sim_.options.completion_limit());
  if (sim_.broken) return;
  sim_.observe(&Checker::completion_due, tables());
}

}  // namespace shoal::sim
