#include "coordinator/service/runtime.h"

#include <algorithm>
#include <random>

#include "coordinator/core/records/records.h"

namespace shoal::coordinator {
namespace {

// Above 0, and within what the database's integers hold.
std::uint64_t draw_store_nonce() {
  std::random_device device;
  const std::uint64_t high = device(), low = device();
  return ((high << 32 | low) >> 1) | 1;
}

// Inputs that the core must see whatever the queue holds; there are at most as many as open
// streams, and one per rotation.
bool must_be_taken(const Input& input) {
  return std::holds_alternative<AgentHungUp>(input) ||
         std::holds_alternative<RecordKeysChanged>(input) ||
         std::holds_alternative<CheckpointUploaded>(input) ||
         std::holds_alternative<CheckpointUploadFailed>(input);
}

// As an earlier process heard them; none where they cannot be read, because they decide nothing.
std::vector<DeviceState> stored_devices(Store& store) {
  const std::unique_ptr<Reader> reader = store.reader();
  if (reader == nullptr) return {};
  auto devices = reader->devices();
  return devices ? std::move(*devices) : std::vector<DeviceState>();
}

}  // namespace

struct Runtime::Subscribers {
  Mutex mutex;
  std::uint64_t next SHOAL_GUARDED_BY(mutex) = 1;
  std::map<std::uint64_t, std::function<void(std::int64_t)>> wakes SHOAL_GUARDED_BY(mutex);

  void wake(std::int64_t newest) {
    const MutexLock guard(mutex);
    for (const auto& [id, call] : wakes) call(newest);
  }
};

Result<std::unique_ptr<Runtime>> Runtime::create(RuntimeOptions options, Store& store) {
  const std::vector<FieldError> problems = validate(options.core);
  if (!problems.empty()) {
    return Error{.code = Code::kValidation,
                 .message = problems.front().detail,
                 .field = problems.front().pointer};
  }
  Result<Snapshot> snapshot = store.load();
  if (!snapshot) return snapshot.error();
  return std::unique_ptr<Runtime>(new Runtime(std::move(options), store, *snapshot));
}

Runtime::Runtime(RuntimeOptions options, Store& store, const Snapshot& snapshot)
    : options_(std::move(options)),
      store_(store),
      clock_(newest_instant(snapshot)),
      checkpoints_(snapshot.checkpoints),
      core_(std::make_unique<Coordinator>(options_.core, snapshot)),
      board_(std::make_unique<LiveBoard>(options_.core.heartbeat_every, snapshot, options_.meters,
                                         stored_devices(store))),
      exporter_(snapshot),
      observer_(snapshot, options_.meters),
      subscribers_(std::make_shared<Subscribers>()) {
  // Points are not durable with their rounds: those of the last ones may have been lost.
  for (const RoundRecord& round : snapshot.rounds) tell_series(round);
}

Runtime::~Runtime() {
  stop(seconds(5));
  delivery_.reset();  // its hooks use the other members
}

void Runtime::start(AgentPort& agents) {
  SHOAL_CHECK(agents_.load() == nullptr, "started twice");
  agents_ = &agents;
  delivery_ = std::make_unique<Delivery>(
      store_,
      Delivery::Hooks{.perform = [this](Delivery::Group group) { perform(std::move(group)); },
                      .failed =
                          [this](const Error& error) {
                            {
                              const MutexLock guard(mutex_);
                              failed_ = true;
                            }
                            if (options_.on_fatal) options_.on_fatal(error);
                          }});
  thread_ = std::thread([this] { run(); });
}

bool Runtime::stop(Duration limit) {
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  if (thread_.joinable()) thread_.join();
  const bool drained = !delivery_ || delivery_->drain(limit);
  if (delivery_) delivery_->halt();
  fail_requests("the coordinator is stopping");
  return drained;
}

// ---- the core thread

void Runtime::run() {
  apply(Booted{draw_store_nonce(), options_.found_checkpoints, options_.record_keys});
  {
    const MutexLock guard(mutex_);
    booted_ = true;
  }
  bool stopping = false;
  while (!stopping) {
    std::optional<Instant> deadline = core_->next_deadline();
    if (options_.turn_every.ns > 0) {
      const Instant turn = clock_.now() + options_.turn_every;
      deadline = deadline ? std::min(*deadline, turn) : turn;
    }
    for (const Input& input : next_inputs(deadline, stopping)) apply(input);
    const std::optional<Instant> due = core_->next_deadline();
    if (!stopping && due && *due <= clock_.now()) apply(Tick{});
    if (options_.on_turn) options_.on_turn();
  }
}

std::vector<Input> Runtime::next_inputs(std::optional<Instant> deadline, bool& stopping) {
  const MutexLock guard(mutex_);
  const auto wanted = [&]() SHOAL_REQUIRES(mutex_) { return stopping_ || !inputs_.empty(); };
  if (deadline) {
    arrived_.wait_until(mutex_, clock_.steady(*deadline), wanted);
  } else {
    arrived_.wait(mutex_, wanted);
  }
  stopping = stopping_;
  waiting_ = {};
  return std::exchange(inputs_, {});
}

void Runtime::apply(const Input& input) {
  const Instant now = clock_.now();
  observe(now, input);
  Effects effects;
  core_->step(now, input, effects);
  options_.meters->runtime.stepped(clock_.now() - now);
  delivery_->push(std::move(effects));
}

// What people see between two rounds. No decision depends on it.
void Runtime::observe(Instant now, const Input& input) {
  if (const auto* gone = std::get_if<AgentHungUp>(&input)) board_->hung_up(gone->connection);
  const auto* said = std::get_if<AgentSaid>(&input);
  if (said == nullptr) return;
  if (std::holds_alternative<Heartbeat>(said->message)) {
    DeviceLog devices = board_->take_devices(now);
    if (!devices.empty()) store_.append_devices(std::move(devices));
  }
  const bool counts = board_->said(now, said->connection, said->message);
  RuntimeMeters& meters = options_.meters->runtime;
  if (std::holds_alternative<Heartbeat>(said->message)) meters.heartbeats.Increment();
  if (const auto* failed = std::get_if<FromReplica<ReduceFailed>>(&said->message)) {
    meters.reduce_failures[failed->body.failure].Increment();
  }
  if (const auto* stats = std::get_if<PipelineStats>(&said->message); stats && counts) {
    observe(*stats);
  }
  if (const auto* progress = std::get_if<Progress>(&said->message); progress && counts) {
    store_.append(exporter_.from_progress(now, *progress));
  }
}

// Reports repeat the newest measurement of each line, so a line weighs by the time that it is used.
void Runtime::observe(const PipelineStats& stats) {
  const std::optional<ReplicaPlace> place = board_->place_of(stats.replica);
  if (!place) return;
  for (const LinkStats& link : stats.links) {
    if (link.round_trip.ns > 0)
      options_.meters->jobs.hop(place->job, place->stage, link.round_trip);
  }
}

// ---- the delivery thread

void Runtime::perform(Delivery::Group group) {
  std::int64_t newest_event = 0;
  observer_.observe(clock_.now(), group.records);
  for (const Record& record : group.records) {
    board_->stored(record);
    tell_series(record);
    if (options_.on_record) options_.on_record(clock_.now(), record);
    if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record)) {
      agents_.load()->checkpoint_changed(*checkpoint);
    }
    if (const auto* event = std::get_if<EventRecord>(&record)) {
      newest_event = std::max(newest_event, event->seq);
      if (options_.on_event) options_.on_event(*event);
    }
  }
  for (Effect& effect : group.effects) perform(std::move(effect));
  if (newest_event > 0) subscribers_->wake(newest_event);
}

void Runtime::tell_series(const Record& record) {
  if (const auto* job = std::get_if<JobRecord>(&record)) {
    if (const auto round = exporter_.went_back_to(*job)) store_.forget_after(job->id, *round);
  }
  if (const auto* gone = std::get_if<ForgottenAgent>(&record)) store_.forget_devices(gone->id);
  auto points = exporter_.from_record(clock_.now(), record);
  if (!points.empty()) store_.append(std::move(points));
}

void Runtime::perform(Effect effect) {
  if (auto* send = std::get_if<Send>(&effect)) {
    options_.meters->runtime.sends.Increment();
    if (const auto* welcome = std::get_if<Welcome>(&send->message)) {
      board_->welcomed(clock_.now(), send->connection, welcome->agent);
    }
    agents_.load()->send(send->connection, send->message);
  } else if (const auto* disconnect = std::get_if<Disconnect>(&effect)) {
    agents_.load()->disconnect(disconnect->connection);
  } else if (auto* reply = std::get_if<Reply>(&effect)) {
    answer(std::move(*reply));
  } else if (const auto* deletion = std::get_if<DeleteCheckpointFiles>(&effect)) {
    agents_.load()->delete_checkpoint_files(deletion->checkpoint);
  } else if (const auto* line = std::get_if<MeasureHostLine>(&effect)) {
    agents_.load()->measure_line(line->connection);
  } else if (const auto* speed = std::get_if<ShowSpeed>(&effect)) {
    board_->show(*speed);
  } else if (const auto* placement = std::get_if<ShowPlacement>(&effect)) {
    board_->show(*placement);
  } else if (const auto* decision = std::get_if<NoteDecision>(&effect)) {
    if (options_.on_decision) options_.on_decision(*decision);
  }
}

// ---- commands

bool Runtime::post(Input input) {
  {
    const MutexLock guard(mutex_);
    if (stopping_ || failed_) return false;
    if (inputs_.size() >= options_.inputs_max && !must_be_taken(input)) return false;
    const auto* said = std::get_if<AgentSaid>(&input);
    if (said != nullptr && ++waiting_[said->connection] > options_.inputs_per_stream) return false;
    inputs_.push_back(std::move(input));
  }
  arrived_.notify_one();
  return true;
}

void Runtime::request(std::function<void(Answer)> done,
                      const std::function<Input(RequestId)>& make) {
  RequestId id;
  {
    const MutexLock guard(mutex_);
    if (requests_.size() < options_.requests_max) {
      id = {next_request_++};
      requests_.emplace(id, std::move(done));
    }
  }
  const bool busy = id.n == 0;
  if (!busy && post(make(id))) return;
  if (!busy) {
    const MutexLock guard(mutex_);
    const auto found = requests_.find(id);
    if (found == requests_.end()) return;  // stop() answered it
    done = std::move(found->second);
    requests_.erase(found);
  }
  done({Error{.code = Code::kUnavailable,
              .message = "the coordinator is stopping or overloaded",
              .remedy = "try again in a few seconds"},
        {}});
}

void Runtime::submit(NewJob job, bool dry_run, std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) {
    return Input(SubmitJob{id, std::move(job.spec), dry_run, std::move(job.submitted),
                           std::move(job.owner.name), job.lease_unit, job.owner.checkpoints});
  });
}

void Runtime::read_logs(AgentId agent, const LogQuery& query,
                        std::function<void(Result<LogPage>)> done) {
  if (AgentPort* agents = agents_.load()) return agents->ask_logs(agent, query, std::move(done));
  done(Error{Code::kUnavailable, "the coordinator is starting", "", "try again in a few seconds"});
}

void Runtime::cancel(JobId job, std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) { return Input(CancelJob{id, job}); });
}

void Runtime::pause(JobId job, std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) { return Input(PauseJob{id, job}); });
}

void Runtime::resume(JobId job, ObjectUser by, std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) { return Input(ResumeJob{id, job, std::move(by)}); });
}

void Runtime::change(ChangeJob command, std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) {
    command.request = id;
    return Input(command);
  });
}

void Runtime::remove_job(JobId job, std::vector<CheckpointRecord> aside,
                         std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) {
    return Input(RemoveJob{id, job, std::move(aside)});
  });
}

void Runtime::command_checkpoint(CommandCheckpoint command, std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) {
    command.request = id;
    return Input(std::move(command));
  });
}

void Runtime::command_agent(AgentId agent, AgentVerb verb, std::function<void(Answer)> done) {
  request(std::move(done), [&](RequestId id) { return Input(CommandAgent{id, agent, verb}); });
}

void Runtime::answer(Reply reply) {
  std::function<void(Answer)> done;
  {
    const MutexLock guard(mutex_);
    const auto found = requests_.find(reply.request);
    if (found == requests_.end()) return;
    done = std::move(found->second);
    requests_.erase(found);
  }
  done({std::move(reply.result), std::move(reply.fields), std::move(reply.plan),
        std::move(reply.forbidden)});
}

void Runtime::fail_requests(const std::string& why) {
  std::map<RequestId, std::function<void(Answer)>> waiting;
  {
    const MutexLock guard(mutex_);
    waiting.swap(requests_);
  }
  for (const auto& [id, done] : waiting) {
    done({Error{.code = Code::kUnavailable, .message = why, .remedy = "try again in a few seconds"},
          {}});
  }
}

// ---- looking in

Readiness Runtime::readiness() const {
  const MutexLock guard(mutex_);
  Readiness readiness;
  if (failed_) readiness.problems.emplace_back("store", "a write to the store failed");
  if (stopping_) readiness.problems.emplace_back("process", "the coordinator is stopping");
  if (!booted_ && !stopping_)
    readiness.problems.emplace_back("process", "the coordinator is starting");
  if (inputs_.size() > options_.inputs_max / 2) {
    readiness.problems.emplace_back("queue",
                                    std::to_string(inputs_.size()) + " inputs wait for the core");
  }
  return readiness;
}

std::int64_t Runtime::inputs_waiting() const {
  const MutexLock guard(mutex_);
  return static_cast<std::int64_t>(inputs_.size());
}

std::string Runtime::checkpoint_folder(CheckpointId checkpoint) const {
  return options_.checkpoint_root + "/" + to_string(checkpoint);
}

std::shared_ptr<void> Runtime::on_events(std::function<void(std::int64_t newest_seq)> wake) {
  const MutexLock guard(subscribers_->mutex);
  const std::uint64_t id = subscribers_->next++;
  subscribers_->wakes.emplace(id, std::move(wake));
  return {nullptr, [id, kept = subscribers_](void*) {
            const MutexLock erase_guard(kept->mutex);
            kept->wakes.erase(id);
          }};
}

}  // namespace shoal::coordinator
