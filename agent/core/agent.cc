// The switch over the inputs, the deadlines, and the two ends of the daemon's life.
#include "agent/core/agent.h"

#include <algorithm>

#include "agent/core/state.h"
#include "base/field_digest.h"
#include "base/overloaded.h"
#include "job/job_rules.h"

namespace shoal::agent {
namespace {

void take_earlier(std::optional<Instant>& earliest, const std::optional<Instant>& due) {
  if (due && (!earliest || *due < *earliest)) earliest = due;
}

}  // namespace

Agent::State::State(Options given)
    : AgentData{.options = given,
                .prng = Prng(given.seed),
                .link_backoff = Backoff(given.reconnect_first, given.reconnect_cap),
                .outbox = Outbox<FromAgent>(static_cast<std::size_t>(given.failures_kept))} {
  const auto problems = validate(options);
  SHOAL_CHECK(problems.empty(),
              problems.empty() ? "" : problems[0].pointer + " " + problems[0].detail);
  for (const Device& device : options.devices) {
    Trainer trainer{.device = device,
                    .backoff = Backoff(options.restart_first, options.restart_cap)};
    trainers.push_back(std::move(trainer));
  }
}

void Agent::State::boot(const Booted& input) {
  if (link_id.n != 0 || link_due) return drop();
  for (const LeftTrainer& left : input.left) await(left);
  for (std::int32_t i = 0; is_first(i); ++i) {
    const bool is_down = trainers[static_cast<std::size_t>(i)].state == TrainerState::kDown;
    if (has_device(i) && is_down) start_trainer(i);
  }
  if (!is_gathering()) return open_link();
  link_due = now + options.gather_limit;
}

void Agent::State::stop() {
  if (!running()) return finish(0, "stopped at once");
  move(daemon, DaemonEvent::kStop);
  drain_due = now + options.drain_limit;
  stop_trainers();
  if (link == LinkState::kActive) {
    say(Goodbye{"stopped by its operator"});
  } else if (link != LinkState::kDown) {
    emit(CloseLink{link_id});
    lose_link();
  }
  link_due.reset();
  heartbeat_due.reset();
  if (all_trainers_down()) finish(0, "stopped");
}

// Without Goodbye: for the coordinator its line was cut.
void Agent::State::hand_over() {
  if (!running()) return drop();
  if (link != LinkState::kDown) {
    emit(CloseLink{link_id});
    move(link, LinkEvent::kLost);
  }
  move(daemon, DaemonEvent::kFinish);
  emit(ExitProcess{0, "ended; its trainers continue and wait for the next start", true});
}

void Agent::State::finish(int code, std::string message) {
  kill_all_trainers();
  if (link != LinkState::kDown) {
    emit(CloseLink{link_id});
    move(link, LinkEvent::kLost);
  }
  move(daemon, DaemonEvent::kFinish);
  emit(ExitProcess{code, std::move(message)});
}

void Agent::State::fire_deadlines() {
  const auto passed = [this](const std::optional<Instant>& due) { return due && *due <= now; };
  if (passed(drain_due) && !running())
    return finish(0, "stopped; trainers that did not end in time were killed");
  if (passed(link_due)) {
    if (link == LinkState::kDown) {
      open_link();
    } else {
      emit(CloseLink{link_id});
      lose_link();
    }
  }
  if (passed(heartbeat_due)) beat();
  for (std::size_t i = 0; i < trainers.size(); ++i) {
    if (passed(trainers[i].due)) trainer_due(static_cast<std::int32_t>(i));
  }
  std::vector<ReplicaId> late;
  for (const auto& [id, replica] : replicas) {
    if (passed(replica.due)) late.push_back(id);
  }
  for (const ReplicaId id : late) replica_due(id);
  std::vector<CheckpointPartId> overdue;
  for (const auto& [id, fetch] : fetches) {
    if (passed(fetch.due)) overdue.push_back(id);
  }
  for (const CheckpointPartId id : overdue) fetch_due(id);
  codes_due();
  for (auto& [id, upload] : uploads) {
    if (passed(upload.due)) send_upload(id, upload);
  }
}

std::optional<Instant> Agent::State::next_deadline() const {
  std::optional<Instant> earliest;
  if (daemon == DaemonState::kStopped) return earliest;
  take_earlier(earliest, drain_due);
  take_earlier(earliest, link_due);
  take_earlier(earliest, heartbeat_due);
  for (const auto& trainer : trainers) take_earlier(earliest, trainer.due);
  for (const auto& [id, replica] : replicas) take_earlier(earliest, replica.due);
  for (const auto& [id, fetch] : fetches) take_earlier(earliest, fetch.due);
  for (const auto& [code, fetch] : codes) take_earlier(earliest, fetch.due);
  for (const auto& [id, upload] : uploads) take_earlier(earliest, upload.due);
  return earliest;
}

Agent::Agent(Options options) : state_(std::make_unique<State>(std::move(options))) {}
Agent::~Agent() = default;

void Agent::step(Instant now, const Input& input, Effects& out) {
  State& s = *state_;
  if (s.daemon == DaemonState::kStopped) return;
  SHOAL_CHECK(now >= s.now, "time went back");
  s.now = now;
  s.out = &out;
  std::visit(Overloaded{
                 [&](const Booted& i) { s.boot(i); },
                 [&](const LinkUp& i) { s.link_up(i); },
                 [&](const LinkDown& i) { s.link_down(i); },
                 [&](const CoordinatorSaid& i) { s.hear(i); },
                 [&](const TrainerAttached& i) { s.attached(i); },
                 [&](const TrainerSaid& i) { s.trainer_said(i); },
                 [&](const TrainerDetached& i) { s.detached(i); },
                 [&](const TrainerOverstepped& i) { s.overstepped(i); },
                 [&](const TrainerExceeded& i) { s.exceeded(i); },
                 [&](const TrainerExited& i) { s.exited(i); },
                 [&](const CheckpointFetched& i) { s.fetched(i.part); },
                 [&](const CheckpointFetchMoved& i) { s.fetch_moved(i); },
                 [&](const CheckpointFetchFailed& i) { s.fetch_failed(i); },
                 [&](const CheckpointHashed& i) { s.hashed(i); },
                 [&](const CheckpointHashFailed& i) { s.hash_failed(i); },
                 [&](const CheckpointUploadMoved& i) { s.upload_moved(i); },
                 [&](const CheckpointUploadDone& i) { s.upload_done(i.part); },
                 [&](const CheckpointUploadFailed& i) { s.upload_failed(i); },
                 [&](const CodeFetched& i) { s.code_fetched(i.code); },
                 [&](const CodeFetchMoved& i) { s.code_moved(i); },
                 [&](const CodeFetchFailed& i) { s.code_failed(i); },
                 [&](const HostMeasured& i) { s.host_measured(i); },
                 [&](const StopRequested&) { s.stop(); },
                 [&](const HandOverRequested&) { s.hand_over(); },
                 [&](const Tick&) {},
             },
             input);
  if (s.daemon != DaemonState::kStopped) s.open_gathered_link();
  if (s.daemon != DaemonState::kStopped) s.fire_deadlines();
  s.out = nullptr;
}

std::optional<Instant> Agent::next_deadline() const { return state_->next_deadline(); }

Digest Agent::digest() const { return digest_of_fields<AgentData>(*state_); }

AgentView Agent::view() const {
  const State& s = *state_;
  AgentView view{.daemon = s.daemon,
                 .link = s.link,
                 .agent = s.welcome.agent,
                 .incarnation = s.welcome.incarnation};
  for (const auto& trainer : s.trainers) view.trainers.push_back(trainer.state);
  for (const auto& [id, replica] : s.replicas)
    view.replicas.push_back({id, replica.assign.device, replica.slot, replica.state});
  view.messages_dropped = s.dropped;
  view.messages_kept = static_cast<std::int64_t>(s.outbox.size());
  return view;
}

const TransitionCounts& Agent::transitions() const { return state_->counts; }

}  // namespace shoal::agent
