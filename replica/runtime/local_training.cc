// See local_training.h.
#include "replica/runtime/local_training.h"

#include <algorithm>
#include <utility>

#include "outer_opt/core/round/groups.h"
#include "replica/runtime/logged_values.h"

namespace shoal::replica {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The training in `all` after its beginning `part`.
Trained beyond(const Trained& all, const Trained& part) {
  Trained rest;
  rest.steps = all.steps - part.steps;
  rest.tokens = all.tokens - part.tokens;
  rest.drawn = all.drawn - part.drawn;
  rest.loss_sum = all.loss_sum - part.loss_sum;
  rest.skipped = all.skipped - part.skipped;
  rest.compute_s = all.compute_s - part.compute_s;
  rest.stall_s = all.stall_s - part.stall_s;
  return rest;
}

}  // namespace

LocalTraining::LocalTraining(TrainingContext context)
    : context_(std::move(context)), spec_(context_.spec), cursor_(spec_) {}

MaybeFailure LocalTraining::open(const OpenRound& round) {
  if (!outer_opt::well_formed(round.leases, spec_.train.batch)) {
    return Failure{ReplicaFailure::kInternal,
                   "a lease of " + std::to_string(count_sequences(round.leases)) +
                       " sequences is not one of steps of " + std::to_string(spec_.train.batch)};
  }
  if (stalled_since_) trained_.stall_s += std::max(0.0, since(*stalled_since_) - other_work_s_);
  stalled_since_.reset();
  key_ = round.key;
  context_.compute.will_train(round.leases);
  cursor_.open(round);
  speed_.go_on(Clock::now());
  // After an abort without further steps, the contribution stays as it is.
  if (cursor_.next() == outer_opt::StepCursor::Next::kBoundary) reach_boundary();
  return std::nullopt;
}

// A replica that trains alone needs no agreement: the next boundary is after the current inner
// step.
void LocalTraining::stop(outer_opt::StopAt) {
  cursor_.stop();
  if (cursor_.next() == outer_opt::StepCursor::Next::kAdopt) {
    context_.adopt();
    cursor_.adopted();
  }
  if (cursor_.next() == outer_opt::StepCursor::Next::kBoundary) reach_boundary();
}

void LocalTraining::reach_boundary() {
  at_boundary_ = trained_;
  cursor_.reported();
  say_logged();
  if (cursor_.next() == outer_opt::StepCursor::Next::kStand) stand();
  trained_.unused = cursor_.unused();
  context_.boundary(trained_);
}

void LocalTraining::stand() {
  stalled_since_ = Clock::now();
  speed_.pause(*stalled_since_);
  other_work_s_ = 0;
}

void LocalTraining::drop_trained() {
  trained_.tokens = trained_.drawn = Tokens();
  trained_.loss_sum = 0;
  at_boundary_ = trained_;
}

void LocalTraining::committed(RoundNumber, Steps, outer_opt::CommitOutcome outcome) {
  end_sample();
  evaluations_.clear();  // those of the former anchor
  cursor_.committed(outcome);
  if (outcome == outer_opt::CommitOutcome::kKept) return;
  const bool tail = outcome == outer_opt::CommitOutcome::kCounted && goes_on();
  trained_ = tail ? beyond(trained_, at_boundary_) : Trained{};
}

void LocalTraining::evaluate(const Evaluate& command) {
  const bool known = std::any_of(evaluations_.begin(), evaluations_.end(),
                                 [&](const Evaluation& e) { return e.command == command; });
  if (!known) evaluations_.push_back({command, 0, {}});
}

void LocalTraining::view(const PipelineView&) {}  // it has no neighbors

void LocalTraining::sample(RoundNumber round) {
  end_sample();
  draft_.emplace(spec_, context_.compute.tokenizer(), context_.compute.prompt(), round,
                 Clock::now());
}

void LocalTraining::end_sample() {
  if (!draft_) return;
  std::string text = draft_->text();
  draft_.reset();
  context_.sampled(std::move(text));
}

// A failed sample never fails the replica: an error only ends the sample.
void LocalTraining::sample_one_token() {
  if (draft_->over(Clock::now())) return end_sample();
  std::vector<float> logits;
  const auto failure =
      on_anchor([&] { return context_.compute.next_logits(draft_->window(), logits); });
  failure ? end_sample() : draft_->take(logits);
}

// Between a commit and the first step after it they are the same, unless something stays local.
bool LocalTraining::differs_from_anchor() const {
  return trained_.steps.count() > 0 || spec_.sync.fragments > 1 || goes_on() ||
         outer_opt::averages_in_groups(spec_.sync);
}

// Local parameters are put aside for as long as `work` takes, which is no training.
template <typename Work>
MaybeFailure LocalTraining::on_anchor(const Work& work) {
  const auto start = Clock::now();
  const bool trained = speed_.pause(start);
  const bool differs = differs_from_anchor();
  if (differs) context_.parameters.put_aside(context_.anchor());
  auto failure = work();
  if (differs) context_.parameters.put_back();
  other_work_s_ += since(start);
  if (trained) speed_.go_on(Clock::now());
  return failure;
}

Duration LocalTraining::idle() const {
  const bool stands = cursor_.next() == outer_opt::StepCursor::Next::kStand;
  return !stands || !evaluations_.empty() || draft_ ? Duration{} : seconds(1);
}

MaybeFailure LocalTraining::work() {
  if (draft_ || !evaluations_.empty()) say_still_there();
  if (draft_) {
    sample_one_token();
    return std::nullopt;
  }
  if (!evaluations_.empty()) return evaluate_one_batch();
  return take_next();
}

MaybeFailure LocalTraining::take_next() {
  using Next = outer_opt::StepCursor::Next;
  if (cursor_.next() == Next::kAdopt) {
    context_.adopt();
    cursor_.adopted();
  }
  if (cursor_.next() == Next::kStep) {
    if (auto failure = train_one_step()) return failure;
    if (cursor_.next() == Next::kStand) stand();
  }
  if (cursor_.next() == Next::kBoundary) reach_boundary();
  return std::nullopt;
}

MaybeFailure LocalTraining::train_one_step() {
  const auto start = Clock::now();
  StepResult result;
  const std::int64_t batch = spec_.train.batch;
  const Steps step = cursor_.at();
  if (auto failure = context_.compute.train_step(step, cursor_.take_step().first, result))
    return failure;
  const Tokens tokens(batch * spec_.model.context);
  trained_.steps += Steps(1);
  trained_.compute_s += since(start);
  if (result.finite) {
    trained_.tokens += tokens;
    trained_.drawn += tokens;
    speed_.trained(tokens);
    trained_.loss_sum += result.loss * static_cast<double>(tokens.count());
  } else {
    ++trained_.skipped;
  }
  keep_newest(logged_, std::move(result.logged));
  say_progress(result);
  return std::nullopt;
}

void LocalTraining::say_progress(const StepResult& step) {
  const auto now = Clock::now();
  if (!speed_.due(now)) return;
  newest_ =
      Progress{context_.replica,   key_,    cursor_.at(),     trained_.tokens,           step.loss,
               step.gradient_norm, step.lr, speed_.read(now), std::exchange(logged_, {})};
  said_at_ = now;
  context_.say(*newest_);
}

// Sends logged values at a boundary, because the next step may be long after it.
void LocalTraining::say_logged() {
  if (!newest_ || logged_.empty()) return;
  newest_->logged = std::exchange(logged_, {});
  said_at_ = Clock::now();
  context_.say(*newest_);
}

// While other work is done the figures stay as they are, and tell that this thread runs.
void LocalTraining::say_still_there() {
  if (!newest_ || since(said_at_) < 1) return;
  said_at_ = Clock::now();
  context_.say(*newest_);
}

// On the anchor: while local parameters differ from it they are put aside for one batch.
MaybeFailure LocalTraining::evaluate_one_batch() {
  Evaluation& evaluation = evaluations_.front();
  const EvalSlice& slice = evaluation.command.slice;
  while (evaluation.next < slice.batches && evaluation.next % slice.slices != slice.slice) {
    ++evaluation.next;
  }
  if (evaluation.next >= slice.batches) {
    context_.say(FromReplica<Evaluated>{
        context_.replica,
        {evaluation.command.key, slice, evaluation.sum.loss_sum, evaluation.sum.tokens}});
    evaluations_.pop_front();
    return std::nullopt;
  }
  return on_anchor([&] {
    return context_.compute.evaluate_batch(evaluation.next++, slice.batches, evaluation.sum);
  });
}

}  // namespace shoal::replica
