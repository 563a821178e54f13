#include "coordinator/service/http/cluster_test_util.h"

#include <algorithm>

#include "coordinator/service/http/page_test_util.h"

namespace shoal::coordinator::testing {
namespace {

constexpr Instant kNow = from_unix_ms(1'800'000'000'123);

constexpr auto kFirstKey = [](const auto& row) { return static_cast<std::int64_t>(row.first); };

class MemoryReader : public Reader {
 public:
  explicit MemoryReader(Tables& tables) : tables_(tables) {}

  Result<Page<JobRecord>> jobs(const PageRequest& page, const JobFilter& filter) override {
    const auto is_wanted = [&](const JobRecord& job) {
      const bool in_phase =
          filter.phases.empty() || std::ranges::count(filter.phases, job.phase) > 0;
      const std::string texts = job.spec.name + "\n" + job.spec.description;
      return in_phase && texts.find(filter.search) != std::string::npos;
    };
    return ask<Page<JobRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      return page_of(tables_.jobs, page, is_wanted, kFirstKey);
    });
  }
  Result<std::optional<JobRecord>> job(JobId id) override { return one(&Tables::jobs, id.n); }
  Result<std::optional<JobRecord>> job_by_name(const std::string& name) override {
    return ask<std::optional<JobRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      std::optional<JobRecord> found;
      for (const auto& [id, job] : tables_.jobs)
        if (job.spec.name == name) found = job;
      return found;
    });
  }
  Result<std::optional<SubmittedText>> submitted_text(JobId job) override {
    return one(&Tables::submitted, job.n);
  }
  Result<Page<AgentRecord>> agents(const PageRequest& page, bool with_gone) override {
    return ask<Page<AgentRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      return page_of(
          tables_.agents, page,
          [&](const AgentRecord& agent) { return with_gone || agent.state != AgentState::kGone; },
          kFirstKey);
    });
  }
  Result<std::optional<AgentRecord>> agent(AgentId id) override {
    return one(&Tables::agents, id.n);
  }
  Result<std::vector<LinkRecord>> links() override {
    return ask<std::vector<LinkRecord>>(
        [&]() SHOAL_REQUIRES(tables_.mutex) { return tables_.links; });
  }
  Result<Page<ReplicaRecord>> replicas(JobId job, const PageRequest& page) override {
    return ask<Page<ReplicaRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      return page_of(
          tables_.replicas, page, [&](const ReplicaRecord& row) { return row.job == job; },
          kFirstKey);
    });
  }
  Result<Page<RoundRecord>> rounds(JobId job, const PageRequest& page) override {
    return ask<Page<RoundRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      auto result = page_of(
          tables_.rounds, page, [&](const RoundRecord& row) { return row.key.job == job; },
          [](const auto& row) { return row.first.round; });
      tables_.round_rows_read += static_cast<std::int64_t>(result.items.size());
      return result;
    });
  }
  Result<std::vector<ContributionRecord>> contributions(const RoundKey& key) override {
    return ask<std::vector<ContributionRecord>>(
        [&]() SHOAL_REQUIRES(tables_.mutex) { return tables_.contributions[key]; });
  }
  Result<Page<CheckpointRecord>> checkpoints(JobId job, const PageRequest& page) override {
    return ask<Page<CheckpointRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      return page_of(
          tables_.checkpoints, page,
          [&](const CheckpointRecord& row) { return row.key.job == job; }, kFirstKey);
    });
  }
  Result<Page<CheckpointRecord>> all_checkpoints(
      const PageRequest& page, const std::vector<CheckpointState>& states) override {
    return ask<Page<CheckpointRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      return page_of(
          tables_.checkpoints, page,
          [&](const CheckpointRecord& row) {
            return states.empty() || std::ranges::count(states, row.state) > 0;
          },
          kFirstKey);
    });
  }
  Result<std::optional<CheckpointRecord>> checkpoint(CheckpointId id) override {
    return one(&Tables::checkpoints, id.n);
  }
  Result<Page<EventRecord>> events(const EventFilter& filter, const PageRequest& page) override {
    return ask<Page<EventRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      return page_of(
          tables_.events, page,
          [&](const EventRecord& event) {
            return (!filter.job || event.job == *filter.job) &&
                   (!filter.agent || event.agent == *filter.agent) &&
                   (!filter.severity_min || event.severity >= *filter.severity_min);
          },
          kFirstKey);
    });
  }
  Result<Page<AuditRecord>> audit(const PageRequest& page) override {
    return ask<Page<AuditRecord>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      return page_of(
          tables_.audit, page, [](const AuditRecord&) { return true; }, kFirstKey);
    });
  }
  Result<std::vector<SeriesNewest>> series_of(JobId) override {
    return ask<std::vector<SeriesNewest>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      std::vector<SeriesNewest> found;
      for (const auto& [name, lines] : tables_.series) {
        found.push_back(
            {name, {{static_cast<std::int64_t>(lines.at(0).x.back()), lines.at(0).y.back()}}});
      }
      return found;
    });
  }
  Result<std::vector<SeriesLine>> series(const SeriesQuery& query) override {
    return ask<std::vector<SeriesLine>>(
        [&]() SHOAL_REQUIRES(tables_.mutex) { return tables_.series[query.name]; });
  }
  Result<std::vector<DeviceState>> devices() override { return std::vector<DeviceState>(); }
  Result<std::vector<DeviceLine>> device_history(AgentId agent, Instant from) override {
    return ask<std::vector<DeviceLine>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      std::vector<DeviceLine> lines = tables_.device_history[agent];
      for (DeviceLine& line : lines) {
        std::erase_if(line.points, [&](const DevicePoint& point) { return point.at < from; });
      }
      return lines;
    });
  }

 private:
  template <typename T, typename Call>
  Result<T> ask(Call call) {
    std::function<void()> before;
    {
      const MutexLock lock(tables_.mutex);
      before = tables_.before_answer;
    }
    if (before) before();
    const MutexLock lock(tables_.mutex);
    if (tables_.broken) return *tables_.broken;
    return call();
  }
  template <typename Map>
  Result<std::optional<typename Map::mapped_type>> one(Map Tables::*table, std::uint64_t key) {
    return ask<std::optional<typename Map::mapped_type>>([&]() SHOAL_REQUIRES(tables_.mutex) {
      const Map& map = tables_.*table;
      const auto it = map.find(key);
      return it == map.end() ? std::nullopt : std::optional(it->second);
    });
  }
  Tables& tables_;
};

ContributionRecord contribution(const RoundKey& key, std::uint64_t replica) {
  ContributionRecord item;
  item.key = key;
  item.replica = ReplicaId(replica);
  item.agent = AgentId(replica);
  item.state = ContributionState::kCommitted;
  item.report = {.key = key,
                 .tokens = Tokens(1600),
                 .steps = Steps(50),
                 .train_loss = 2.5,
                 .norm = 0.5,
                 .max_abs = 0.25,
                 .nonfinite = 0,
                 .compute_s = 8.5,
                 .drawn = Tokens(1600),
                 .stall_s = 1.5};
  item.reported_at = kNow - seconds(90);
  item.voted_at = kNow - seconds(88);
  item.applied_at = kNow - seconds(86);
  item.weight = 1600;
  item.member_index = static_cast<std::int32_t>(replica) - 1;
  item.average = {1, 2};
  item.anchor = {3, 4};
  item.stats = {.sent = Bytes(1000), .received = Bytes(900), .reduce_s = 0.75};
  return item;
}

void fill_rounds(Tables& tables, JobId job) SHOAL_REQUIRES(tables.mutex) {
  for (RoundNumber number = 1; number <= 3; ++number) {
    RoundRecord round;
    round.key = {job, 0, number};
    round.from_step = Steps((number - 1) * 50);
    round.to_step = Steps(number * 50);
    round.opened_at = kNow - seconds(100);
    if (number < 3) {
      round.state = RoundState::kCommitted;
      round.frozen_at = kNow - seconds(89);
      round.committed_at = kNow - seconds(87);
      round.reduces = {{.attempt = 1,
                        .attempt_started_at = kNow - seconds(89),
                        .average = {1, 2},
                        .anchor = {3, 4},
                        .momentum = {}}};
      round.tokens = Tokens(3200);
      round.train_loss = 2.5;
      tables.contributions[round.key] = {contribution(round.key, 1), contribution(round.key, 2)};
    }
    tables.rounds[round.key] = round;
  }
}

void fill_members(Tables& tables, JobId job, LiveView& live) SHOAL_REQUIRES(tables.mutex) {
  live.tokens_per_s.put(job, 1000);
  for (std::uint64_t n = 1; n <= 2; ++n) {
    AgentRecord agent;
    agent.id = AgentId(n);
    agent.uid = std::string(32, 'a');
    agent.name = "agent-" + std::to_string(n);
    agent.version = "0.1.0";
    agent.host = "127.0.0.1";
    agent.incarnation = {1};
    agent.state = AgentState::kActive;
    agent.devices = {{.index = 0,
                      .kind = DeviceKind::kCpu,
                      .name = "CPU",
                      .memory = mebibytes(512),
                      .gflops = 10,
                      .bf16 = false}};
    agent.labels = {{"region", "eu"}};
    agent.joined_at = kNow - seconds(1000);
    tables.agents[n] = agent;
    live.agents.put(agent.id, {Health::kGreen, kNow - seconds(1), mebibytes(40)});
    if (n == 2) live.agents[agent.id].failures = {{0, "exited with code 1: no driver"}};
    live.speeds.put(ReplicaId(n), {agent.id, 0.9, ""});

    ReplicaRecord replica;
    replica.id = ReplicaId(n);
    replica.job = job;
    replica.agent = agent.id;
    replica.state = ReplicaState::kServing;
    replica.held_round = 2;
    replica.created_at = kNow - seconds(900);
    tables.replicas[n] = replica;
    live.replicas.put(replica.id, {{.replica = replica.id,
                                    .key = {job, 0, 3},
                                    .step = Steps(100 + static_cast<std::int64_t>(n)),
                                    .tokens = Tokens(320),
                                    .train_loss = 2.25,
                                    .gradient_norm = 1,
                                    .lr = 1e-3,
                                    .tokens_per_s = 500},
                                   kNow - seconds(1)});
  }
}

}  // namespace

void MemoryStore::write(std::vector<Record>, std::function<void(Status)> done) { done(Status()); }
void MemoryStore::write_people(std::vector<PeopleRow> rows, std::function<void(Status)> done) {
  {
    const MutexLock lock(tables_.mutex);
    for (const PeopleRow& row : rows) {
      if (const auto* audit = std::get_if<AuditRecord>(&row)) tables_.audit[audit->seq] = *audit;
    }
  }
  done({});
}

std::unique_ptr<Reader> MemoryStore::reader() { return std::make_unique<MemoryReader>(tables_); }
StoreStats MemoryStore::stats() const {
  StoreStats stats;
  stats.state_file = Bytes(4096);
  return stats;
}

void MemoryCluster::submit(NewJob handed_in, bool dry_run, std::function<void(Answer)> done) {
  if (!answer_commands) return;
  const JobSpec& spec = handed_in.spec;
  MutexLock lock(tables.mutex);
  for (const auto& [id, job] : tables.jobs) {
    if (job.spec.name != spec.name || dry_run) continue;
    lock.unlock();
    return done({Error{Code::kConflict, "the name \"" + spec.name + "\" is taken", "/name",
                       "choose another"},
                 {}});
  }
  if (spec.name == "too-big") {
    lock.unlock();
    return done({Error{Code::kValidation, "1 field is not accepted", "", ""},
                 {{"/model/layers", "no agent has the memory"}}});
  }
  const JobId id(next_job_++);
  if (!dry_run) {
    JobRecord job;
    job.id = id;
    job.spec = spec;
    job.owner = handed_in.owner.name;
    job.created_at = kNow;
    tables.jobs[id.n] = job;
    handed_in.submitted.job = id;
    tables.submitted[id.n] = std::move(handed_in.submitted);
  }
  lock.unlock();
  done({id, {}, dry_run ? std::make_shared<const PlacementDecision>(plan) : nullptr});
}

void MemoryCluster::cancel(JobId job, std::function<void(Answer)> done) {
  desire(job, JobDesired::kCancel, done);
}

void MemoryCluster::pause(JobId job, std::function<void(Answer)> done) {
  desire(job, JobDesired::kPause, done);
}

void MemoryCluster::resume(JobId job, ObjectUser, std::function<void(Answer)> done) {
  desire(job, JobDesired::kRun, done);
}

void MemoryCluster::desire(JobId job, JobDesired desired, const std::function<void(Answer)>& done) {
  if (!answer_commands) return;
  MutexLock lock(tables.mutex);
  JobRecord& record = tables.jobs.at(job.n);
  if (is_terminal(record.phase)) {
    lock.unlock();
    return done({Error{Code::kConflict, "the job has ended", "", ""}, {}});
  }
  record.desired = desired;
  lock.unlock();
  done({job, {}});
}

void MemoryCluster::change(ChangeJob command, std::function<void(Answer)> done) {
  MutexLock lock(tables.mutex);
  JobRecord& record = tables.jobs.at(command.job.n);
  const bool ended = is_terminal(record.phase);
  const bool good = command.outer_lr.value_or(1) <= 10;
  if (!ended && good) {
    record.outer_lr = command.outer_lr.value_or(record.outer_lr);
    record.priority = command.priority.value_or(record.priority);
  }
  lock.unlock();
  if (ended) return done({Error{Code::kConflict, "the job has ended", "", ""}, {}});
  if (good) return done({command.job, {}});
  done({Error{Code::kValidation, "1 field is not accepted", "", ""},
        {{"/outer_lr", "must be above 0 and at most 10"}}});
}

void MemoryCluster::remove_job(JobId job, std::vector<CheckpointRecord>,
                               std::function<void(Answer)> done) {
  MutexLock lock(tables.mutex);
  const bool ended = is_terminal(tables.jobs.at(job.n).phase);
  if (ended) tables.jobs.erase(job.n);
  lock.unlock();
  if (ended) return done({job, {}});
  done({Error{Code::kConflict, "job alpha is training", "job", "cancel it"}, {}});
}

// Every one is needed.
void MemoryCluster::command_checkpoint(CommandCheckpoint command,
                                       std::function<void(Answer)> done) {
  MutexLock lock(tables.mutex);
  CheckpointRecord& record = tables.checkpoints.at(command.checkpoint.id.n);
  const bool remove = command.verb == CheckpointVerb::kRemove, refused = remove && !command.force;
  if (remove && command.force) record.state = CheckpointState::kDeleted;
  if (command.verb == CheckpointVerb::kVerified) record.verified_at.ns = 1;
  const bool pins = !remove && command.verb != CheckpointVerb::kVerified;
  if (pins) record.pinned = command.verb == CheckpointVerb::kPin;
  const JobId job = record.key.job;
  lock.unlock();
  if (!refused) return done({job, {}});
  done({Error{Code::kConflict, "ckpt_5 is needed", "checkpoint", "use --force"},
        {{"/newest_cut", "job alpha has not ended"}}});
}

void MemoryCluster::command_agent(AgentId agent, AgentVerb verb, std::function<void(Answer)> done) {
  MutexLock lock(tables.mutex);
  AgentRecord& record = tables.agents.at(agent.n);
  const bool gone = record.state == AgentState::kGone;
  if (verb == AgentVerb::kForget) {
    if (gone) tables.agents.erase(agent.n);
    lock.unlock();
    if (gone) return done({JobId(), {}});
    return done({Error{Code::kConflict, "the agent is here", "agent", ""}, {}});
  }
  if (gone) {
    lock.unlock();
    return done({Error{Code::kConflict, "the agent is gone", "agent", ""}, {}});
  }
  record.cordoned = verb != AgentVerb::kUncordon;
  if (verb == AgentVerb::kDrain) record.state = AgentState::kDraining;
  lock.unlock();
  done({JobId(), {}});
}

void MemoryCluster::read_logs(AgentId agent, const LogQuery& query,
                              std::function<void(Result<LogPage>)> done) {
  MutexLock lock(tables.mutex);
  const auto known = tables.logs.find(agent);
  if (known == tables.logs.end()) {
    lock.unlock();
    return done(Error{Code::kUnavailable, "the agent is not connected", "", ""});
  }
  LogPage page;
  for (const LogLine& line : known->second.lines)
    if (fits(query, line)) page.lines.push_back(line);
  const auto over = static_cast<std::ptrdiff_t>(page.lines.size()) - query.limit;
  if (over > 0 && query.after) page.lines.resize(static_cast<std::size_t>(query.limit));
  if (over > 0 && !query.after) page.lines.erase(page.lines.begin(), page.lines.begin() + over);
  lock.unlock();
  done(std::move(page));
}

std::shared_ptr<const LiveView> MemoryCluster::live() const {
  const MutexLock lock(mutex_);
  return std::make_shared<const LiveView>(live_);
}
void MemoryCluster::set_live(LiveView view) {
  const MutexLock lock(mutex_);
  live_ = std::move(view);
}
Readiness MemoryCluster::readiness() const { return ready; }
CheckpointSpace MemoryCluster::checkpoint_space() const {
  const MutexLock lock(mutex_);
  return space_;
}
void MemoryCluster::set_checkpoint_space(CheckpointSpace space) {
  const MutexLock lock(mutex_);
  space_ = space;
}
std::string MemoryCluster::checkpoint_folder(CheckpointId checkpoint) const {
  return checkpoint_root + "/" + to_string(checkpoint);
}

std::shared_ptr<void> MemoryCluster::on_events(std::function<void(std::int64_t)> wake) {
  const MutexLock lock(mutex_);
  const int handle = next_wake_++;
  wakes_[handle] = std::move(wake);
  return std::shared_ptr<void>(nullptr, [this, handle](void*) {
    const MutexLock inner(mutex_);
    wakes_.erase(handle);
  });
}

void MemoryCluster::add_event(std::string kind, JobId job, std::string message, Severity severity) {
  std::int64_t seq = 0;
  {
    const MutexLock lock(tables.mutex);
    seq = tables.events.empty() ? 1 : tables.events.rbegin()->first + 1;
    EventRecord event;
    event.seq = seq;
    event.at = kNow;
    event.kind = std::move(kind);
    event.job = job;
    event.message = std::move(message);
    event.severity = severity;
    tables.events[seq] = event;
  }
  const MutexLock lock(mutex_);
  for (const auto& [handle, wake] : wakes_) wake(seq);
}

JobSpec small_spec(std::string name) {
  JobSpec spec;
  spec.name = std::move(name);
  spec.data.train = "/data/train.txt";
  spec.train.steps = Steps(150);
  spec.train.batch = 1;
  spec.model.context = 32;
  return spec;
}

namespace {

JobRecord training_job() {
  JobRecord job;
  job.id = JobId(7);
  job.spec = small_spec("alpha");
  job.phase = JobPhase::kTraining;
  job.reason = JobReason::kRunning;
  job.created_at = kNow - seconds(1000);
  job.updated_at = kNow - seconds(86);
  job.started_at = kNow - seconds(950);
  job.committed_round = 2;
  job.committed_at = kNow - seconds(87);
  job.committed_step = Steps(100);
  job.committed_tokens = Tokens(6400);
  job.stages = {{.units = {0, 6}, .value_count = 1000, .anchor = {3, 4}, .momentum = {}}};
  job.train_loss = 2.5;
  job.bytes_sent = Bytes(4000);
  return job;
}

JobRecord finished_job() {
  JobRecord done = training_job();
  done.id = JobId(8);
  done.spec.name = "beta";
  done.phase = JobPhase::kCompleted;
  done.reason = JobReason::kFinished;
  done.validation_loss = 1.75;
  done.validation_round = 2;
  done.finished_at = kNow - seconds(500);
  done.updated_at = kNow - seconds(500);
  return done;
}

void fill_checkpoints(Tables& tables, JobId job) SHOAL_REQUIRES(tables.mutex) {
  CheckpointRecord checkpoint;
  checkpoint.id = CheckpointId(5);
  checkpoint.key = {job, 0, 2};
  checkpoint.state = CheckpointState::kStored;
  checkpoint.updated_at = kNow - seconds(80);
  checkpoint.parts.resize(1);
  checkpoint.parts[0].state = CheckpointState::kStored;
  checkpoint.parts[0].files = {{"model.bin", Bytes(10), std::string(64, 'a')},
                               {"state/outer.bin", Bytes(4), std::string(64, 'b')},
                               {"link.bin", Bytes(10), std::string(64, 'c')},
                               {"short.bin", Bytes(99), std::string(64, 'd')}};
  tables.checkpoints[5] = checkpoint;
  checkpoint.id = CheckpointId(6);
  checkpoint.state = checkpoint.parts[0].state = CheckpointState::kUploading;
  tables.checkpoints[6] = checkpoint;
}

LiveView fill_tables(Tables& tables, JobId job) SHOAL_EXCLUDES(tables.mutex) {
  const MutexLock lock(tables.mutex);
  tables.jobs[7] = training_job();
  tables.jobs[8] = finished_job();

  LiveView live;
  live.now = kNow;
  live.boot_epoch = 3;
  fill_members(tables, job, live);
  fill_rounds(tables, job);
  fill_checkpoints(tables, job);
  tables.device_history[AgentId(1)] = {
      {"cpu-1", 0, "CPU", {{.at = kNow - seconds(7200), .busy = 0.5}, {.at = kNow, .busy = 1}}}};
  tables.series["train_loss"] = {
      {ReplicaId(), {1, 2}, {2.5, 2.25}, {2.5, 2.25}, {2.5, 2.25}, {100.5, 101}}};
  tables.links = {
      {AgentId(1), AgentId(2), milliseconds(20), 25e6, PeerWay::kDirect, kNow - seconds(60)},
      {AgentId(2), AgentId(1), {}, 0, PeerWay::kUnreachable, kNow - seconds(60)},
      {AgentId(1), AgentId(99), milliseconds(20), 25e6, PeerWay::kDirect, kNow}};
  return live;
}

}  // namespace

void fill(MemoryCluster& cluster) {
  const JobId job(7);
  cluster.set_live(fill_tables(cluster.tables, job));
  cluster.add_event("job_submitted", job, "alpha was submitted");
  cluster.add_event("agent_joined", {}, "agent-1 joined");
  cluster.add_event("replica_failed", job, "out of memory", Severity::kWarning);
}

}  // namespace shoal::coordinator::testing
