// The life of a task: arrival, sending, answer, refusal, loss. A task that is dropped takes what it
// has below with it (SendCancel), so nobody computes for an answer that nobody waits for.
#include <algorithm>

#include "base/check.h"
#include "swarm/core/session/stage_session_state.h"

namespace shoal::swarm {
namespace {
constexpr std::uint64_t kSlotBits = 20;
constexpr std::uint64_t kSlotMask = (1u << kSlotBits) - 1;

bool index_before(const std::pair<Microbatch, TaskId>& a, const Microbatch& b) {
  return a.first < b;
}
}  // namespace

using State = StageSession::State;

bool Due::later_than(const Due& other) const {
  const Microbatch &a = microbatch, &b = other.microbatch;
  if (a.round != b.round) return a.round > b.round;
  if (a.step != b.step) return a.step > b.step;
  const bool a_trains = a.kind == PassKind::kTrain, b_trains = b.kind == PassKind::kTrain;
  if (a_trains != b_trains) return a_trains;
  if (a.index != b.index) return a.index > b.index;
  if (backward != other.backward) return other.backward;
  if (a.router != b.router) return a.router > b.router;
  return task > other.task;
}

void DueHeap::push(const Due& due) {
  items_.push_back(due);
  std::push_heap(items_.begin(), items_.end(),
                 [](const Due& a, const Due& b) { return a.later_than(b); });
}

void DueHeap::pop() {
  std::pop_heap(items_.begin(), items_.end(),
                [](const Due& a, const Due& b) { return a.later_than(b); });
  items_.pop_back();
}

void StepLedger::forget_added() {
  for (auto& [source, entries] : sources_) {
    for (auto& [index, entry] : entries) entry.added = false;
  }
}

void StepLedger::add_to(Digester& digester) const {
  for (const auto& [source, entries] : sources_) {
    digester.add(source.first.n).add(static_cast<std::int32_t>(source.second));
    for (const auto& [index, entry] : entries) {
      digester.add(index).add(entry.sends).add(entry.forwards).add(entry.added);
    }
  }
}

Task* State::find(TaskId id) {
  const std::uint64_t slot = id & kSlotMask;
  return id != 0 && slot < slots.size() && slots[slot].id == id ? &slots[slot] : nullptr;
}

Task& State::reserve() {
  if (free_slots.empty()) {
    SHOAL_CHECK(slots.size() < kSlotMask, "too many tasks");
    free_slots.push_back(static_cast<std::uint32_t>(slots.size()));
    slots.emplace_back();
  }
  const std::uint32_t slot = free_slots.back();
  free_slots.pop_back();
  slots[slot] = Task{.id = ++serial << kSlotBits | slot};
  return slots[slot];
}

void State::enlist(Task& task, const Microbatch& microbatch, ReplicaId sender,
                   std::int32_t attempt) {
  task.microbatch = microbatch;
  task.from = sender;
  task.attempt_in = attempt;
  const auto at = std::lower_bound(index.begin(), index.end(), microbatch, index_before);
  index.insert(at, {microbatch, task.id});
  if (sender) {
    ++peers.at(sender).tasks;
  } else {
    ++book(microbatch.step).live;
  }
  queue(task);
}

void State::queue(Task& task) {
  task.phase = TaskPhase::kQueued;
  ready.push({task.microbatch, task.backward, task.id});
}

void State::wait(Task& task) {
  task.phase = TaskPhase::kWaiting;
  waiting.push({task.microbatch, false, task.id});
}

Task* State::received(ReplicaId from_peer, const ForwardHeader& header) {
  auto at = std::lower_bound(index.begin(), index.end(), header.microbatch, index_before);
  for (; at != index.end() && at->first == header.microbatch; ++at) {
    Task* task = find(at->second);
    if (task->from == from_peer && task->attempt_in == header.attempt) return task;
  }
  return nullptr;
}

Task* State::below(ReplicaId to_peer, const Microbatch& microbatch, std::int32_t attempt) {
  auto at = std::lower_bound(index.begin(), index.end(), microbatch, index_before);
  for (; at != index.end() && at->first == microbatch; ++at) {
    Task* task = find(at->second);
    if (task->phase == TaskPhase::kBelow && task->to == to_peer && task->attempt_out == attempt) {
      return task;
    }
  }
  return nullptr;
}

bool State::may_compute(const Microbatch& m) const {
  if (m.round != held + 1 || m.step < step || m.step > open_to()) return false;
  if (!in_view || stopping) return false;
  return training || m.kind != PassKind::kTrain;
}

std::optional<RefusalReason> State::objection(const Peer& sender, const Microbatch& m) const {
  if (is_past(m)) return RefusalReason::kPast;
  const bool welcome = in_view && sender.in_view && sender.stage + 1 == options.stage;
  if (!welcome || stopped || (cut_off && way_round())) return RefusalReason::kNotInView;
  if (sender.tasks >= received_max) return RefusalReason::kOverCredit;
  return std::nullopt;
}

void State::send_waiting(SessionActions& out) {
  while (!waiting.empty()) {
    Task* task = find(waiting.top().task);
    if (task == nullptr || task->phase != TaskPhase::kWaiting) {
      waiting.pop();
      continue;
    }
    const double work = task->microbatch.kind == PassKind::kTrain ? 1 : kForwardWork;
    const auto to_peer = wiring.choose(work);
    if (!to_peer) return;
    waiting.pop();
    send(*task, *to_peer, out);
  }
}

void State::send(Task& task, ReplicaId to_peer, SessionActions& out) {
  if (task.attempt_out == 0) {
    retry_tokens = std::min(budget.burst, retry_tokens + budget.per_microbatch);
  } else {
    ++stats.resent;
  }
  task.phase = TaskPhase::kBelow;
  task.to = to_peer;
  task.attempt_out = ++book(task.microbatch.step).ledger.of(task.microbatch).sends;
  out.push_back(SendForward{to_peer, task.id, {task.microbatch, task.attempt_out}});
}

void State::answered(Task& task, const BackwardHeader& header, SessionActions& out) {
  wiring.give_back(task.to);
  task.loss_sum = header.loss_sum;
  task.tokens = header.tokens;
  if (task.microbatch.kind != PassKind::kTrain) return finish(task, out);
  measured(task.to, header.service);
  task.backward = true;
  queue(task);
}

void State::finish(Task& task, SessionActions& out) {
  if (task.microbatch.kind == PassKind::kTrain) {
    ++stats.microbatches;
    const Duration gap = task.service - stats.service;
    stats.service = stats.service.ns == 0 ? task.service
                                          : stats.service + seconds_f(kServiceEma * gap.seconds());
  }
  if (task.from) {
    out.push_back(
        SendBackward{task.from,
                     task.id,
                     {task.microbatch, task.attempt_in, task.service, task.loss_sum, task.tokens}});
  } else {
    came_back(task, out);
  }
  release(task, out);
}

void State::came_back(const Task& task, SessionActions& out) {
  switch (task.microbatch.kind) {
    case PassKind::kTrain:
      ++drawn_sum;
      drawn_tokens += task.tokens;
      loss_sum += task.loss_sum;
      out.push_back(CameBack{task.microbatch});
      return;
    case PassKind::kLogits:
      out.push_back(LogitsCame{task.id});
      return;
    case PassKind::kLoss:
      break;
  }
  for (Evaluation& e : evaluations) {
    if (e.done) continue;
    e.loss_sum += task.loss_sum;
    e.tokens += task.tokens;
    if (++e.answered == e.passes) {
      e.done = true;
      out.push_back(EvaluationDone{e.key, e.slice, e.loss_sum, e.tokens});
    }
    return;
  }
}

void State::drop(Task& task, SessionActions& out) {
  if (!task.from && task.microbatch.kind == PassKind::kLogits) sampling = false;
  if (task.phase == TaskPhase::kBelow) {
    out.push_back(SendCancel{task.to, {task.microbatch, task.attempt_out}});
    wiring.give_back(task.to);
  }
  if (task.phase != TaskPhase::kComputing) return release(task, out);
  if (!task.dropped) detach(task);
  task.dropped = true;
}

void State::refuse_up(const Task& task, RefusalReason reason, SessionActions& out) {
  if (!task.from || task.dropped || !peers.at(task.from).connected) return;
  out.push_back(SendRefusal{task.from, {task.microbatch, task.attempt_in}, reason});
}

void State::drop_past(SessionActions& out) {
  for (Task& task : slots) {
    if (task.id == 0 || task.phase == TaskPhase::kAsked || !is_past(task.microbatch)) continue;
    refuse_up(task, RefusalReason::kPast, out);
    drop(task, out);
  }
}

void State::detach(Task& task) {
  if (task.phase == TaskPhase::kAsked) return;
  auto at = std::lower_bound(index.begin(), index.end(), task.microbatch, index_before);
  while (at->second != task.id) ++at;
  index.erase(at);
  if (!task.from) {
    --book(task.microbatch.step).live;
  } else if (Peer* peer = peers.find(task.from)) {
    --peer->tasks;
  }
}

void State::release(Task& task, SessionActions& out) {
  if (!task.dropped) detach(task);
  out.push_back(Forget{task.id});
  free_slots.push_back(static_cast<std::uint32_t>(task.id & kSlotMask));
  task = {};
}

void State::refill(Instant now) {
  const double elapsed = std::max(0.0, (now - refilled).seconds());
  retry_tokens = std::min(budget.burst, retry_tokens + budget.per_s * elapsed);
  refilled = now;
}

void State::retry(Instant now, Task& task) {
  refill(now);
  if (retry_tokens >= 1) {
    retry_tokens -= 1;
    return wait(task);
  }
  task.phase = TaskPhase::kParked;
  parked.push_back(task.id);
}

void State::unpark(Instant now) {
  if (parked.empty()) return;
  refill(now);
  std::size_t taken = 0;
  for (; taken < parked.size() && retry_tokens >= 1; ++taken) {
    Task* task = find(parked[taken]);
    if (task == nullptr || task->phase != TaskPhase::kParked) continue;
    retry_tokens -= 1;
    wait(*task);
  }
  parked.erase(parked.begin(), parked.begin() + static_cast<std::ptrdiff_t>(taken));
}

std::optional<TaskId> StageSession::forward(Instant, ReplicaId from, const ForwardHeader& header,
                                            SessionActions& out) {
  State& s = *state_;
  const Peer* sender = s.peers.find(from);
  if (sender == nullptr || !sender->connected || s.received(from, header) != nullptr) {
    ++s.stats.unknown;
    return std::nullopt;
  }
  if (const auto reason = s.objection(*sender, header.microbatch)) {
    if (*reason == RefusalReason::kPast) ++s.stats.past;
    out.push_back(SendRefusal{from, header, *reason});
    return std::nullopt;
  }
  Task& task = s.reserve();
  s.enlist(task, header.microbatch, from, header.attempt);
  return task.id;
}

std::optional<TaskId> StageSession::backward(Instant now, ReplicaId from,
                                             const BackwardHeader& header, SessionActions& out) {
  State& s = *state_;
  Task* task = s.below(from, header.microbatch, header.attempt);
  if (task == nullptr) {
    ++s.stats.unknown;
    return std::nullopt;
  }
  const TaskId id = task->id;
  s.answered(*task, header, out);
  s.settle(now, out);
  return id;
}

void StageSession::cancelled(Instant now, ReplicaId from, const ForwardHeader& header,
                             SessionActions& out) {
  if (Task* task = state_->received(from, header)) {
    state_->drop(*task, out);
    state_->settle(now, out);
  }
}

void StageSession::refused(Instant now, ReplicaId from, const ForwardHeader& header,
                           RefusalReason reason, SessionActions& out) {
  State& s = *state_;
  Task* task = s.below(from, header.microbatch, header.attempt);
  if (task == nullptr) {
    ++s.stats.unknown;
    return;
  }
  ++s.stats.refused;
  s.wiring.give_back(from);
  if (reason == RefusalReason::kPast) {
    task->phase = TaskPhase::kVoid;
    return s.settle(now, out);
  }
  s.pause(now, from);
  if (reason == RefusalReason::kBadTensor && ++task->bad_tensors == kBadTensorsMax) {
    out.push_back(GiveUp{"the next stage refuses what this replica computes (bad tensor)"});
  }
  s.retry(now, *task);
  s.settle(now, out);
}

}  // namespace shoal::swarm
