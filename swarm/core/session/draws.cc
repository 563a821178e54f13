#include "swarm/core/session/draws.h"

#include <algorithm>

#include "base/check.h"
#include "outer_opt/core/round/lease_runs.h"

namespace shoal::swarm {

Draws::Draws(const SessionOptions& options, StepBooks& books, const StepBarrier& barrier,
             const RoundProgress& progress)
    : self_(options.self),
      microbatch_(options.microbatch),
      books_(&books),
      barrier_(&barrier),
      progress_(&progress) {}

// ---- inputs

void Draws::open(const OpenRound& round) {
  const std::int64_t steps = round.to_step.count() - round.from_step.count();
  const std::int64_t behind = round.to_step.count() - barrier_->step();
  const std::int64_t to_come = barrier_->training() ? std::max(steps, behind) : steps;
  const std::int64_t leased = count_sequences(round.leases);
  per_step_ =
      leased > 0 && to_come > 0 ? std::max<std::int64_t>(1, leased / to_come / microbatch_) : 0;
}

void Draws::committed(SessionActions& out) {
  void_evaluations(out);
  evaluations_.clear();
  boundary();
}

void Draws::evaluate(const RoundKey& key, const EvalSlice& slice, std::int64_t microbatches,
                     SessionActions& out) {
  SHOAL_CHECK(microbatches > 0);
  for (const Evaluation& e : evaluations_) {
    if (e.key != key || e.slice != slice) continue;
    if (e.done) out.push_back(EvaluationDone{e.key, e.slice, e.loss_sum, e.tokens});
    return;
  }
  Evaluation e{.key = key, .slice = slice, .microbatches = microbatches};
  if (slice.slices > 0 && slice.slice < slice.batches) {
    e.passes = ((slice.batches - slice.slice - 1) / slice.slices + 1) * microbatches;
  }
  const bool in_time = key.round == barrier_->held() && barrier_->step() == barrier_->opening() &&
                       progress_->own_done() < barrier_->step();
  e.done = e.passes == 0 || !in_time;
  if (e.done) out.push_back(EvaluationDone{key, slice, 0, {}});
  evaluations_.push_back(e);
}

void Draws::ask(TaskId task) {
  sampling_ = true;
  asked_.push_back(task);
}

void Draws::sample_over() {
  asked_.clear();
  sampling_ = false;
}

void Draws::came_back(const Task& task, SessionActions& out) {
  switch (task.microbatch.kind) {
    case PassKind::kTrain:
      ++answered_;
      tokens_ += task.tokens;
      loss_sum_ += task.loss_sum;
      out.push_back(CameBack{task.microbatch});
      return;
    case PassKind::kLogits:
      out.push_back(LogitsCame{task.id});
      return;
    case PassKind::kLoss:
      break;
  }
  for (Evaluation& e : evaluations_) {
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

void Draws::void_evaluations(SessionActions& out) {
  for (Evaluation& e : evaluations_) {
    if (e.done) continue;
    e.done = true;
    e.loss_sum = 0;
    e.tokens = {};
    out.push_back(EvaluationDone{e.key, e.slice, 0, {}});
  }
}

void Draws::skip(std::int64_t step, SessionActions& out) {
  sample_over();
  void_evaluations(out);
  StepBook& book = books_->of(step);
  book.drawn = std::max(book.drawn, to_draw(step));
}

ReachBoundary Draws::boundary() {
  ReachBoundary reached{.drawn = answered_, .loss_sum = loss_sum_, .drawn_tokens = tokens_};
  answered_ = 0;
  loss_sum_ = 0;
  tokens_ = {};
  return reached;
}

// ---- what follows

bool Draws::at_rest() const {
  const std::int64_t step = barrier_->step();
  return !barrier_->training() || (step == barrier_->opening() && progress_->own_done() < step);
}

bool Draws::evaluating() const {
  return std::any_of(evaluations_.begin(), evaluations_.end(),
                     [](const Evaluation& e) { return !e.done; });
}

std::int64_t Draws::to_draw(std::int64_t step) const {
  if (!barrier_->training() || step >= barrier_->end() || progress_->own_last()) return 0;
  const bool closing = barrier_->state() == BarrierState::kClosing;
  return closing && books_->of(step).drawn == 0 ? 0 : per_step_;
}

bool Draws::done_with(std::int64_t step) const {
  const StepBook& book = books_->of(step);
  if (step >= barrier_->end() || progress_->own_last()) return false;
  if (book.live > 0 || book.drawn < to_draw(step)) return false;
  return step > barrier_->step() || !(evaluating() || (sampling_ && at_rest()));
}

bool Draws::ends_with(std::int64_t step) const {
  const bool closing = barrier_->state() == BarrierState::kClosing;
  return step + 1 >= barrier_->end() || (closing && books_->of(step + 1).drawn == 0);
}

Microbatch Draws::pass(PassKind kind, std::int64_t step, std::int64_t index) const {
  return {barrier_->held() + 1, step, self_, static_cast<std::int32_t>(index), kind};
}

std::optional<Draws::Draw> Draws::next() {
  if (const auto pass_of_it = next_of_evaluation()) return Draw{*pass_of_it};
  if (!asked_.empty() && at_rest()) {
    const TaskId asked = asked_.front();
    asked_.erase(asked_.begin());
    return Draw{pass(PassKind::kLogits, barrier_->step(), samples_++), asked};
  }
  if (const auto drawn = next_of_training()) return Draw{*drawn};
  return std::nullopt;
}

std::optional<Microbatch> Draws::next_of_evaluation() {
  const auto e = std::find_if(evaluations_.begin(), evaluations_.end(),
                              [](const Evaluation& one) { return !one.done; });
  if (e == evaluations_.end() || e->drawn == e->passes) return std::nullopt;
  const std::int64_t batch = e->slice.slice + e->drawn / e->microbatches * e->slice.slices;
  const std::int64_t index = batch * e->microbatches + e->drawn % e->microbatches;
  ++e->drawn;
  return pass(PassKind::kLoss, barrier_->step(), index);
}

std::optional<Microbatch> Draws::next_of_training() {
  for (std::int64_t step = barrier_->step(); step <= barrier_->open_to(); ++step) {
    StepBook& book = books_->of(step);
    if (book.drawn < to_draw(step)) return pass(PassKind::kTrain, step, book.drawn++);
  }
  return std::nullopt;
}

}  // namespace shoal::swarm
