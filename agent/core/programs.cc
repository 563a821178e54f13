// Jobs that are worked on by a program of their own (trainer.kind = "python"): whether it may run
// here, its code, and the process that takes the place of the device's trainer.
#include <algorithm>

#include "agent/core/state.h"

namespace shoal::agent {
namespace {

bool is_program(const TrainerSpec& runs) { return runs.kind == TrainerKind::kPython; }

// Whether another try would end the same way.
bool is_final(Code code) {
  return code == Code::kDataLoss || code == Code::kInvalidArgument ||
         code == Code::kPermissionDenied || code == Code::kResourceExhausted;
}

}  // namespace

// A reducer runs the same process for all jobs.
TrainerSpec Agent::State::runs_of(const Assign& message) const {
  const Device& device = trainers[static_cast<std::size_t>(message.device)].device;
  return device.kind == DeviceKind::kReducer ? TrainerSpec() : message.spec.trainer;
}

std::optional<std::string> Agent::State::why_not_run_here(const Assign& message) const {
  const auto refusal = why_not_run(runs_of(message), message.owner, options.programs);
  if (!refusal) return std::nullopt;
  return "this agent does not run " + refusal->what + " (start it with " + refusal->option + ")";
}

// Stops a further trainer whose replica has ended; its slot is used again for the next one. Also
// stops a job's program, which gets time for what it does after its loop.
void Agent::State::retire(std::int32_t slot) {
  if (is_taken(slot) || !running()) return;
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  const bool program = is_program(trainer.identity.runs);
  if (trainer.state == TrainerState::kDown) {  // a further one is not started again
    if (!is_first(slot)) trainer.due.reset();
    return;
  }
  if ((is_first(slot) && !program) || trainer.state == TrainerState::kStopping) return;
  stop_trainer(slot);
  trainer.releasing = false;
  trainer.replaced = program;
  trainer.due = now + (program ? options.release_limit : options.drain_limit);
}

TrainerIdentity Agent::State::identity_of(const Assign& message) const {
  return {runs_of(message), message.replica, message.job, message.stage};
}

// A program belongs to one replica; until its code is here the trainer runs. The trainer gets its
// replicas when it loads them.
TrainerIdentity Agent::State::identity_for(std::int32_t slot) const {
  for (const auto& [id, replica] : replicas) {
    const bool program = is_program(runs_of(replica.assign)) && has_code(replica);
    if (replica.slot == slot && program) return identity_of(replica.assign);
  }
  return {};
}

std::string Agent::State::data_for(std::int32_t slot) const {
  for (const auto& [id, replica] : replicas) {
    if (replica.slot == slot) return replica.assign.spec.data.train;
  }
  return {};
}

// Each replica gets a new process of its program, once it waits for one.
void Agent::State::prepare(const Replica& replica) {
  if (!has_code(replica)) return;
  Trainer& trainer = trainers[static_cast<std::size_t>(replica.slot)];
  if (trainer.state == TrainerState::kDown) {
    if (!trainer.due) start_trainer(replica.slot);
    return;
  }
  if (!is_program(trainer.identity.runs) && !is_program(runs_of(replica.assign))) return;
  trainer.replaced = true;
  if (trainer.state == TrainerState::kStopping) return;
  stop_trainer(replica.slot);
  trainer.releasing = false;
  trainer.due = now + options.drain_limit;
}

// ---- code

bool Agent::State::has_code(const Replica& replica) const {
  const std::string code = runs_of(replica.assign).code;
  if (code.empty()) return true;
  const Fetch* fetch = codes.find(code);
  return fetch != nullptr && fetch->complete;
}

void Agent::State::want_code(Replica& replica) {
  const std::string code = runs_of(replica.assign).code;
  if (code.empty()) return;
  if (!codes.contains(code)) {
    Fetch& fetch = codes.put(code, {.patience = new_patience()});
    fetch.patience.begin(now);
    fetch_code(code, fetch);
  }
  if (!has_code(replica)) replica.due.reset();  // the fetch has its own deadline
}

void Agent::State::fetch_code(const std::string& code, Fetch& fetch) {
  fetch.running = true;
  fetch.queued_since = now;
  fetch.due.reset();
  const auto waiting = waiting_for_code(code);
  FetchCode effect{code, waiting.empty() ? ReplicaId() : waiting.front(), {}};
  for (const auto& [other, ignored] : codes) effect.in_use.push_back(other);
  emit(std::move(effect));
}

void Agent::State::code_fetched(const std::string& code) {
  Fetch* fetch = codes.find(code);
  if (fetch == nullptr || fetch->complete) return drop();
  fetch->complete = true;
  fetch->due.reset();
  for (const ReplicaId id : waiting_for_code(code)) {
    Replica& replica = replicas.at(id);
    replica.due = now + options.assign_limit;
    prepare(replica);
  }
}

void Agent::State::code_moved(const CodeFetchMoved& input) {
  Fetch* fetch = codes.find(input.code);
  if (fetch == nullptr || fetch->complete || !fetch->running) return drop();
  has_its_turn(fetch->queued_since, fetch->patience);
  const bool further = fetch->patience.moved(now, input.done);
  fetch->due = fetch->patience.gives_up_at() + stall_for(options.transfer_limit, input.total);
  if (!further) return;
  for (const ReplicaId id : waiting_for_code(input.code)) {
    say(LoadProgress{id, input.done, input.total});
  }
}

void Agent::State::code_failed(const CodeFetchFailed& input) {
  Fetch* fetch = codes.find(input.code);
  if (fetch == nullptr || fetch->complete || !fetch->running) return drop();
  const auto again = is_final(input.error.code) ? std::nullopt : break_off(fetch->patience);
  if (!again) return give_up_code(input.code, input.error);
  fetch->running = false;
  fetch->due = again;
}

void Agent::State::codes_due() {
  std::vector<std::string> overdue;
  for (const auto& [code, fetch] : codes) {
    if (fetch.due && *fetch.due <= now) overdue.push_back(code);
  }
  for (const std::string& code : overdue) {
    Fetch& fetch = codes.at(code);
    if (!fetch.running) {
      fetch_code(code, fetch);
    } else {
      give_up_code(code, {Code::kDeadlineExceeded, "nothing moved", "", ""});
    }
  }
}

void Agent::State::give_up_code(const std::string& code, const Error& error) {
  const auto failure =
      error.code == Code::kDataLoss ? ReplicaFailure::kDigestMismatch : ReplicaFailure::kSourceLost;
  codes.erase(code);
  for (const ReplicaId id : waiting_for_code(code)) {
    fail_replica(id, failure, "cannot fetch its code " + code + ": " + to_string(error));
  }
}

// The next replica that needs it asks again; most likely the host still has it.
void Agent::State::drop_unused_code() {
  std::vector<std::string> unused;
  for (const auto& [code, fetch] : codes) {
    const bool used = std::ranges::any_of(replicas, [&wanted = code](const auto& entry) {
      return entry.second.assign.spec.trainer.code == wanted;
    });
    if (!used) unused.push_back(code);
  }
  for (const std::string& code : unused) codes.erase(code);
}

std::vector<ReplicaId> Agent::State::waiting_for_code(const std::string& code) const {
  std::vector<ReplicaId> waiting;
  for (const auto& [id, replica] : replicas) {
    const bool waits = replica.state == ReplicaState::kWaiting;
    if (waits && replica.assign.spec.trainer.code == code) waiting.push_back(id);
  }
  return waiting;
}

}  // namespace shoal::agent
