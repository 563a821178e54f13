#include "swarm/core/session/tasks.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"

namespace shoal::swarm {
namespace {

using enum TaskState;

constexpr std::uint64_t kSlotBits = 20;
constexpr std::uint64_t kSlotMask = (1u << kSlotBits) - 1;

constexpr std::pair<TaskState, TaskState> kTable[] = {
    {kFree, kQueued},
    {kFree, kAsked},
    {kAsked, kQueued},
    {kQueued, kComputing},
    {kComputing, kWaiting},
    {kComputing, kDiscarded},
    {kComputing, kFree},
    {kWaiting, kBelow},
    {kBelow, kWaiting},
    {kBelow, kParked},
    {kBelow, kPast},
    {kBelow, kReturned},
    {kParked, kWaiting},
    {kReturned, kComputingBack},
    {kComputingBack, kDiscarded},
    {kComputingBack, kFree},
    {kDiscarded, kFree},
    {kAsked, kFree},
    {kQueued, kFree},
    {kWaiting, kFree},
    {kBelow, kFree},
    {kParked, kFree},
    {kPast, kFree},
    {kReturned, kFree},
};

bool index_before(const std::pair<Microbatch, TaskId>& a, const Microbatch& b) {
  return a.first < b;
}

}  // namespace

bool allowed(TaskState from, TaskState to) {
  return std::find(std::begin(kTable), std::end(kTable), std::pair(from, to)) != std::end(kTable);
}

void Tasks::transition(Task& task, TaskState to) {
  SHOAL_CHECK(allowed(task.state, to),
              std::string("task: ") + to_string(task.state) + " -> " + to_string(to));
  task.state = to;
}

Tasks::Tasks(bool last_stage, StepBooks& books, Wiring& wiring, SessionStats& stats, Instant now)
    : last_stage_(last_stage), books_(&books), wiring_(&wiring), stats_(&stats), retries_(now) {}

// ---- births

Task& Tasks::reserve(TaskState state) {
  if (free_slots_.empty()) {
    SHOAL_CHECK(slots_.size() < kSlotMask, "too many tasks");
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].id = ++serial_ << kSlotBits | slot;
  transition(slots_[slot], state);
  return slots_[slot];
}

void Tasks::register_task(Task& task, const Microbatch& microbatch, ReplicaId sender,
                          std::int32_t attempt) {
  task.microbatch = microbatch;
  task.from = sender;
  task.attempt_in = attempt;
  const auto at = std::lower_bound(index_.begin(), index_.end(), microbatch, index_before);
  index_.insert(at, {microbatch, task.id});
  if (sender) {
    ++received_[sender];
  } else {
    ++books_->of(microbatch.step).live;
  }
  ready_.push({microbatch, false, task.id});
}

TaskId Tasks::arrive(ReplicaId from, const ForwardHeader& header) {
  Task& task = reserve(kQueued);
  register_task(task, header.microbatch, from, header.attempt);
  return task.id;
}

TaskId Tasks::draw(const Microbatch& microbatch) {
  Task& task = reserve(kQueued);
  register_task(task, microbatch, {}, 1);
  return task.id;
}

TaskId Tasks::ask() { return reserve(kAsked).id; }

void Tasks::draw_asked(TaskId asked, const Microbatch& microbatch) {
  Task& task = *find(asked);
  transition(task, kQueued);
  register_task(task, microbatch, {}, 1);
}

// ---- who they are

Task* Tasks::find(TaskId id) {
  const std::uint64_t slot = id & kSlotMask;
  return id != 0 && slot < slots_.size() && slots_[slot].id == id ? &slots_[slot] : nullptr;
}

template <typename Wanted>
Task* Tasks::find_by(const Microbatch& microbatch, Wanted wanted) {
  auto at = std::lower_bound(index_.begin(), index_.end(), microbatch, index_before);
  for (; at != index_.end() && at->first == microbatch; ++at) {
    Task* task = find(at->second);
    if (wanted(*task)) return task;
  }
  return nullptr;
}

Task* Tasks::received(ReplicaId from, const ForwardHeader& header) {
  return find_by(header.microbatch, [&](const Task& task) {
    return task.from == from && task.attempt_in == header.attempt;
  });
}

Task* Tasks::below(ReplicaId to, const ForwardHeader& header) {
  return find_by(header.microbatch, [&](const Task& task) {
    return task.state == kBelow && task.to == to && task.attempt_out == header.attempt;
  });
}

std::int32_t Tasks::received_from(ReplicaId sender) const {
  const std::int32_t* count = received_.find(sender);
  return count == nullptr ? 0 : *count;
}

std::int32_t Tasks::count(TaskState state) const {
  const auto is = [state](const Task& task) { return task.state == state; };
  return static_cast<std::int32_t>(std::count_if(slots_.begin(), slots_.end(), is));
}

// ---- the device

const Due* Tasks::next() {
  while (!ready_.empty()) {
    const Due& due = ready_.top();
    const Task* task = find(due.task);
    if (task != nullptr && task->state == (due.backward ? kReturned : kQueued)) return &due;
    ready_.pop();
  }
  return nullptr;
}

Compute Tasks::begin() {
  SHOAL_CHECK(!computing(), "a pass is being computed");
  const Due due = *next();
  ready_.pop();
  Task& task = *find(due.task);
  StepLedger::Entry& done = books_->of(due.microbatch.step).ledger.of(due.microbatch);
  Compute compute{
      .task = task.id, .kind = ComputeKind::kForward, .microbatch = due.microbatch, .add = true};
  if (due.backward) {
    compute.kind = ComputeKind::kBackward;
  } else {
    if (last_stage_) compute.kind = ComputeKind::kLast;
    stats_->recomputed += done.forwards++ > 0;
  }
  if (due.microbatch.kind == PassKind::kTrain && compute.kind != ComputeKind::kForward) {
    compute.add = task.adds = !done.added;
    done.added = true;
    stats_->answered_only += !compute.add;
    stats_->added_again += compute.add && task.attempt_in > 1;
  }
  transition(task, due.backward ? kComputingBack : kComputing);
  computed_ = task.id;
  return compute;
}

Task* Tasks::computed(Duration service, double loss_sum, Tokens tokens, SessionActions& out) {
  SHOAL_CHECK(computing(), "nothing is being computed");
  Task& task = *find(std::exchange(computed_, 0));
  task.service = task.service + service;
  if (last_stage_) task.loss_sum = loss_sum, task.tokens = tokens;
  if (std::exchange(task.adds, false)) books_->of(task.microbatch.step).tokens += task.tokens;
  if (task.state == kDiscarded) {
    release(task, out);
  } else if (task.state == kComputingBack || last_stage_) {
    return &task;
  } else {
    wait(task);
  }
  return nullptr;
}

// ---- the next stage

void Tasks::wait(Task& task) {
  transition(task, kWaiting);
  waiting_.push({task.microbatch, false, task.id});
}

void Tasks::send_waiting(SessionActions& out) {
  while (!waiting_.empty()) {
    Task* task = find(waiting_.top().task);
    if (task == nullptr || task->state != kWaiting) {
      waiting_.pop();
      continue;
    }
    const auto to = wiring_->choose(task->microbatch.kind == PassKind::kTrain ? 1 : kForwardWork);
    if (!to) return;
    waiting_.pop();
    send(*task, *to, out);
  }
}

void Tasks::send(Task& task, ReplicaId to, SessionActions& out) {
  if (task.attempt_out == 0) {
    retries_.admitted();
  } else {
    ++stats_->resent;
  }
  transition(task, kBelow);
  task.to = to;
  // Never below the attempt that came: who sent it again further up is seen all the way down.
  std::int32_t& sends = books_->of(task.microbatch.step).ledger.of(task.microbatch).sends;
  sends = std::max(sends, task.attempt_in - 1) + 1;
  task.attempt_out = sends;
  out.push_back(SendForward{to, task.id, {task.microbatch, task.attempt_out}});
}

void Tasks::retry(Instant now, Task& task) {
  if (retries_.take(now)) return wait(task);
  transition(task, kParked);
  parked_.push_back(task.id);
}

void Tasks::unpark(Instant now) {
  std::size_t looked_at = 0;
  for (; looked_at < parked_.size(); ++looked_at) {
    Task* task = find(parked_[looked_at]);
    if (task == nullptr || task->state != kParked) continue;
    if (!retries_.take(now)) break;
    wait(*task);
  }
  parked_.erase(parked_.begin(), parked_.begin() + static_cast<std::ptrdiff_t>(looked_at));
}

std::optional<Instant> Tasks::next_deadline() const {
  if (parked_.empty()) return std::nullopt;
  return retries_.next();
}

void Tasks::refused_as_past(Task& task) { transition(task, kPast); }

bool Tasks::take_answer(Task& task, const BackwardHeader& header) {
  task.loss_sum = header.loss_sum;
  task.tokens = header.tokens;
  if (task.microbatch.kind != PassKind::kTrain) return true;
  transition(task, kReturned);
  ready_.push({task.microbatch, true, task.id});
  return false;
}

// ---- ends

void Tasks::count_answer(const Task& task) {
  ++stats_->microbatches;
  const Duration gap = task.service - stats_->service;
  stats_->service = stats_->service.ns == 0
                        ? task.service
                        : stats_->service + seconds_f(kServiceEma * gap.seconds());
}

void Tasks::finish(Task& task, SessionActions& out) {
  if (task.microbatch.kind == PassKind::kTrain) count_answer(task);
  if (!task.own()) {
    const BackwardHeader answer{task.microbatch, task.attempt_in, task.service, task.loss_sum,
                                task.tokens};
    out.push_back(SendBackward{task.from, task.id, answer});
  }
  release(task, out);
}

void Tasks::refuse_up(const Task& task, RefusalReason reason, SessionActions& out) const {
  if (task.own()) return;
  out.push_back(SendRefusal{task.from, {task.microbatch, task.attempt_in}, reason});
}

void Tasks::drop(Task& task, SessionActions& out) {
  if (task.state == kBelow) {
    out.push_back(SendCancel{task.to, {task.microbatch, task.attempt_out}});
    wiring_->give_back(task.to);
  }
  if (task.state != kComputing && task.state != kComputingBack) return release(task, out);
  detach(task);
  transition(task, kDiscarded);
}

// Nothing counts it any more.
void Tasks::detach(Task& task) {
  if (!task.placed()) return;
  auto at = std::lower_bound(index_.begin(), index_.end(), task.microbatch, index_before);
  while (at->second != task.id) ++at;
  index_.erase(at);
  if (task.own()) {
    --books_->of(task.microbatch.step).live;
  } else if (--received_.at(task.from) == 0) {
    received_.erase(task.from);
  }
}

void Tasks::release(Task& task, SessionActions& out) {
  detach(task);
  out.push_back(Forget{task.id});
  free_slots_.push_back(static_cast<std::uint32_t>(task.id & kSlotMask));
  transition(task, kFree);
  task = {};
}

}  // namespace shoal::swarm
