// See coordinator_test_util.h.
#include "coordinator/core/coordinator_test_util.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "coordinator/core/state/commit_proof.h"

namespace shoal::coordinator {

JobSpec small_job(std::string name) {
  JobSpec spec;
  spec.name = std::move(name);
  spec.data.train = "/data/text";
  spec.model.layers = 1;
  spec.model.hidden = 32;
  spec.model.heads = 2;
  spec.model.context = 32;
  spec.train.steps = Steps(20);
  spec.train.warmup = Steps(1);
  spec.train.batch = 4;
  change_sync(spec, [](SyncSpec& sync) {
    sync.every = Steps(10);
    sync.audit = 0;
  });
  spec.swarm.min_replicas = 2;
  spec.checkpoint.every_rounds = 1;
  spec.eval.batches = 2;
  return spec;
}

std::vector<HeldReplica> held_replicas(const State& state, const std::vector<ReplicaId>& replicas) {
  std::vector<HeldReplica> all;
  for (const ReplicaId id : replicas) {
    HeldReplica held{.replica = id};
    if (const ReplicaRecord* record = state.replicas.find(id)) {
      held.store = record->store;
      held.job = record->job;
      held.stage = record->stage;
      held.device = record->device;
      held.key = {record->job, record->epoch, record->held_round};
      held.anchor = record->anchor;
      held.momentum = record->momentum;
      held.address = record->address;
      const JobRecord& job = state.jobs.at(record->job);
      CommitRecord commit = commit_record(state, job);
      commit.key = held.key;
      held.record = SignedRecords(state, job, std::move(commit)).of(id);
      held.value_count = 1000;
      held.cut = cut_of(state.jobs.at(record->job));
      held.spec = state.jobs.at(record->job).spec;
    }
    all.push_back(std::move(held));
  }
  return all;
}

// Agents that are played by hand measure no blocks, unless a test is about that.
Rig::Rig() {
  options.measure_limit = {};
  restart();
}
Rig::Rig(Rig&&) noexcept = default;
Rig::~Rig() = default;

void Rig::restart(std::vector<CheckpointRecord> found) {
  core_ = std::make_unique<Coordinator>(options, snapshot());
  sent.clear(), lines.clear();
  input(Booted{++starts_, std::move(found), record_keys});
}

void Rig::restore(const Snapshot& backup, std::vector<CheckpointRecord> found) {
  counters_ = backup.counters;
  jobs_.clear(), agents_.clear(), replicas_.clear(), rounds_.clear();
  contributions_.clear(), checkpoints_.clear(), links_.clear();
  for (const auto& r : backup.jobs) keep(r);
  for (const auto& r : backup.agents) keep(r);
  for (const auto& r : backup.links) keep(r);
  for (const auto& r : backup.replicas) keep(r);
  for (const auto& r : backup.rounds) keep(r);
  for (const auto& r : backup.contributions) keep(r);
  for (const auto& r : backup.checkpoints) keep(r);
  restart(std::move(found));
}

void Rig::input(const Input& in) {
  Effects out;
  core_->step(now, in, out);
  bool sending = false;
  for (auto& effect : out) {
    if (auto* persist = std::get_if<Persist>(&effect)) {
      EXPECT_FALSE(sending) << "a Persist after a Send";
      keep(persist->record);
    } else {
      sending = true;
      if (auto* send = std::get_if<Send>(&effect)) sent[send->connection].push_back(send->message);
      if (auto* reply = std::get_if<Reply>(&effect)) replies.push_back(*reply);
      if (auto* gone = std::get_if<DeleteCheckpointFiles>(&effect))
        deleted.push_back(gone->checkpoint);
      if (auto* line = std::get_if<MeasureHostLine>(&effect)) lines.push_back(line->connection);
      if (auto* decision = std::get_if<NoteDecision>(&effect)) decisions.push_back(*decision);
    }
  }
  EXPECT_EQ(Coordinator(options, snapshot()).digest(), core_->digest()) << "after replay";
}

std::vector<FileEntry> part_files(char hash, StageIndex stage, std::size_t stages) {
  char numbers[48] = "";
  if (stages > 1) std::snprintf(numbers, sizeof numbers, "-%05d-of-%05zu", stage + 1, stages);
  std::vector<FileEntry> files;
  for (const char* stem : {"model", "outer", "shoal_state"})
    files.push_back({stem + std::string(numbers) + ".safetensors", {}, {}});
  files.push_back({stage == 0 ? "shoal.json" : "shoal" + std::string(numbers) + ".json", {}, {}});
  for (FileEntry& file : files) file.size = Bytes(1), file.sha256 = std::string(64, hash);
  return files;
}

std::vector<FileEntry> files_with_roles() {
  const std::string hash(64, 'a');
  return {{"model.safetensors", Bytes(1), hash, "weights"},
          {"outer.safetensors", Bytes(1), hash, "outer/momentum"},
          {"part-00.json", Bytes(1), hash, "part"}};
}

void Rig::upload(CheckpointId id, StageIndex stage) {
  const CheckpointRecord& checkpoint = state().checkpoints.at(id);
  const ReplicaId writer = checkpoint.parts.at(static_cast<std::size_t>(stage)).writer;
  const AgentId agent = state().replicas.at(writer).agent;
  CheckpointWritten written{writer, id, checkpoint.key,
                            part_files('a', stage, checkpoint.parts.size())};
  if (writes_part_files) {
    written.files = files_with_roles();
    written.anchor = checkpoint.parts.at(static_cast<std::size_t>(stage)).anchor;
  }
  say(state().presence.at(agent).connection, written);
  input(CheckpointUploaded{id, stage, files_of(id, stage)});
}

std::vector<FileEntry> Rig::files_of(CheckpointId id, StageIndex stage) const {
  return state().checkpoints.at(id).parts.at(static_cast<std::size_t>(stage)).files;
}

void Rig::sign(HeldReplica& held) const {
  held.record.proof.replica = held.replica;
  held.record.proof.key_id = record_keys.back().id;
  held.record.proof.mac = code_of(record_keys.back(), held.record);
}

void Rig::adopt(const JobSpec& spec) {
  JobRecord job;
  job.id = JobId(counters_.next_job++);
  job.spec = with_derived_fields(spec);
  job.created_at = now;
  keep(job);
  restart();
}

void Rig::wait(Duration d) {
  const Instant until = now + d;
  while (core_->next_deadline() && *core_->next_deadline() <= until) {
    now = std::max(now, *core_->next_deadline());
    input(Tick{});
  }
  now = until;
}

ConnectionId Rig::join(const std::string& name, Incarnation incarnation,
                       std::vector<ReplicaId> replicas) {
  Hello hello;
  hello.uid = "uid-" + name;
  hello.name = name;
  hello.host = "127.0.0.1";
  hello.incarnation = incarnation;
  hello.replicas = held_replicas(state(), replicas);
  hello.labels = labels;
  hello.protocol = protocol;
  hello.runs_programs = programs.beneath_root;
  hello.code_from = programs.code_from;
  hello.devices = {Device{.index = 0,
                          .kind = DeviceKind::kCpu,
                          .name = "cpu",
                          .memory = device_memory,
                          .gflops = 10,
                          .bf16 = false}};
  const ConnectionId connection{next_connection_++};
  input(AgentHello{connection, hello});
  return connection;
}

Result<JobId> Rig::submit(const JobSpec& spec) {
  input(SubmitJob{RequestId{1}, spec, false});
  return replies.back().result;
}

void Rig::say(ConnectionId connection, FromAgent message) { input(AgentSaid{connection, message}); }

ReplicaId Rig::load(ConnectionId connection, Digest anchor) {
  const Assign assign = last<Assign>(connection).value();
  say(connection, Loaded{assign.replica,
                         assign.source.key,
                         anchor,
                         {8, 8},
                         1000,
                         "127.0.0.1:" + std::to_string(7100 + connection.n),
                         fragments});
  return assign.replica;
}

void Rig::report(ConnectionId connection, ReplicaId replica, RoundKey key, double norm,
                 std::vector<LinkEstimate> links) {
  RoundReport body;
  body.key = key;
  body.tokens = body.drawn = Tokens(1280);
  body.steps = Steps(10);
  body.train_loss = 2.5;
  body.norm = norm;
  body.links = std::move(links);
  if (const RoundRecord* round = state().rounds.find(key)) body.aborts = round->aborts;
  say(connection, FromReplica<RoundReport>{replica, body});
}

void Rig::report_broken(ConnectionId connection, ReplicaId replica, RoundKey key) {
  RoundReport body;
  body.key = key;
  body.tokens = body.drawn = Tokens(1280);
  body.steps = Steps(10);
  body.nonfinite = 1;
  say(connection, FromReplica<RoundReport>{replica, body});
}

void Rig::vote(ConnectionId connection, ReplicaId replica, RoundKey key, std::int32_t attempt,
               Digest average, const std::vector<ReplicaId>& excluded) {
  say(connection,
      FromReplica<Vote>{
          replica, Vote{key, attempt, average, {Bytes(100), Bytes(200), 0.5}, {excluded, {}, {}}}});
}

void Rig::applied(ConnectionId connection, ReplicaId replica, RoundKey key, Digest anchor) {
  say(connection, FromReplica<Applied>{replica, Applied{key, anchor, {9, 9}}});
}

Snapshot Rig::snapshot() const {
  Snapshot s;
  s.counters = counters_;
  for (const auto& [id, r] : jobs_) s.jobs.push_back(r);
  for (const auto& [id, r] : agents_) s.agents.push_back(r);
  for (const auto& [id, r] : replicas_) s.replicas.push_back(r);
  for (const auto& [id, r] : rounds_) s.rounds.push_back(r);
  for (const auto& [id, r] : contributions_) s.contributions.push_back(r);
  for (const auto& [id, r] : checkpoints_) s.checkpoints.push_back(r);
  for (const auto& [key, r] : links_) s.links.push_back(r);
  return s;
}

void Rig::keep(const Record& record) {
  if (const auto* r = std::get_if<CounterRecord>(&record)) counters_ = *r;
  if (const auto* r = std::get_if<JobRecord>(&record)) jobs_[r->id] = *r;
  if (const auto* r = std::get_if<AgentRecord>(&record)) agents_[r->id] = *r;
  if (const auto* r = std::get_if<ReplicaRecord>(&record)) replicas_[r->id] = *r;
  if (const auto* r = std::get_if<RoundRecord>(&record)) rounds_[r->key] = *r;
  if (const auto* r = std::get_if<ContributionRecord>(&record)) {
    contributions_[{r->key, r->replica}] = *r;
  }
  if (const auto* r = std::get_if<CheckpointRecord>(&record)) checkpoints_[r->id] = *r;
  if (const auto* r = std::get_if<LinkRecord>(&record)) links_[{r->from, r->to}] = *r;
  if (const auto* r = std::get_if<ForgottenAgent>(&record)) {
    agents_.erase(r->id);
    std::erase_if(links_, [&](const auto& line) {
      return line.first.first == r->id || line.first.second == r->id;
    });
  }
  if (const auto* r = std::get_if<EventRecord>(&record)) events.push_back(*r);
  if (const auto* r = std::get_if<SubmittedText>(&record)) submitted.push_back(*r);
}

PairRig::PairRig(const JobSpec& spec, std::vector<std::int64_t> lengths) {
  fragments = std::move(lengths);
  a = join("a");
  b = join("b");
  id = *submit(spec);
  rep_a = load(a);
  rep_b = load(b);
  wait(seconds(3));
}

void PairRig::finish(RoundNumber round) {
  vote(a, rep_a, key(round), 1), vote(b, rep_b, key(round), 1);
  applied(a, rep_a, key(round), {11, 11}), applied(b, rep_b, key(round), {11, 11});
}

}  // namespace shoal::coordinator
