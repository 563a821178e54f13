// See local_training.h.
#include "trainer/local_training.h"

#include <algorithm>

namespace shoal::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kProgressEvery_s = 1;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

LocalTraining::LocalTraining(TrainingContext context)
    : context_(std::move(context)),
      spec_(context_.model.spec()),
      learner_(context_.model, context_.data) {}

MaybeFailure LocalTraining::open(const OpenRound& round) {
  const std::int64_t steps = (round.to_step - round.from_step).count();
  if (steps < 0 || round.lease.first < 0 || round.lease.count != steps * spec_.train.batch) {
    return Failure{ReplicaFailure::kInternal, "a lease of " + std::to_string(round.lease.count) +
                                                  " sequences does not cover " +
                                                  std::to_string(steps) + " steps of " +
                                                  std::to_string(spec_.train.batch)};
  }
  lease_ = Lease{round, 0};
  progress_at_ = Clock::now();
  progress_tokens_ = trained_.tokens;
  if (steps == 0) reach_boundary();  // after an abort that waits: what there is stands
  return std::nullopt;
}

// Alone there is nobody to agree with: the next boundary is the one between two inner steps.
void LocalTraining::stop(outer_opt::StopAt) {
  if (lease_) reach_boundary();
}

void LocalTraining::reach_boundary() {
  trained_.at = lease_->round.from_step + Steps(lease_->done);
  lease_.reset();
  context_.boundary(trained_);
}

void LocalTraining::committed(RoundNumber, Steps) {
  end_sample();
  lease_.reset();
  evaluations_.clear();  // those of the former anchor
  trained_ = {};
}

void LocalTraining::evaluate(const Evaluate& command) {
  const bool known = std::any_of(evaluations_.begin(), evaluations_.end(),
                                 [&](const Evaluation& e) { return e.command == command; });
  if (!known) evaluations_.push_back({command, 0, {}});
}

void LocalTraining::view(const PipelineView&) {}  // it has no neighbours

void LocalTraining::sample(RoundNumber round) {
  end_sample();
  draft_.emplace(spec_, *context_.data, round, Clock::now());
}

void LocalTraining::end_sample() {
  if (!draft_) return;
  std::string text = draft_->text();
  draft_.reset();
  context_.sampled(std::move(text));
}

// A text is not worth a replica: what goes wrong ends the text only.
void LocalTraining::sample_one_token() {
  std::vector<float> logits;
  if (draft_->over(Clock::now()) || learner_.next_logits(draft_->window(), logits)) {
    return end_sample();
  }
  draft_->take(logits);
}

Duration LocalTraining::idle() const {
  return lease_ || !evaluations_.empty() || draft_ ? Duration{} : seconds(1);
}

MaybeFailure LocalTraining::work() {
  if (draft_) {
    sample_one_token();
    return std::nullopt;
  }
  if (!evaluations_.empty()) return evaluate_one_batch();
  return lease_ ? train_one_step() : std::nullopt;
}

MaybeFailure LocalTraining::train_one_step() {
  const OpenRound& round = lease_->round;
  const auto start = Clock::now();
  StepResult result;
  const std::int64_t batch = spec_.train.batch;
  const Steps step = round.from_step + Steps(lease_->done);
  if (auto failure = learner_.train_step(step, round.lease.first + lease_->done * batch, result)) {
    return failure;
  }
  const Tokens tokens(batch * spec_.model.context);
  ++lease_->done;
  trained_.steps += Steps(1);
  trained_.compute_s += since(start);
  if (result.finite) {
    trained_.tokens += tokens;
    trained_.drawn += tokens;
    trained_.loss_sum += result.loss * static_cast<double>(tokens.count());
  } else {
    ++trained_.skipped;
  }
  say_progress(result);
  if (lease_->done == (round.to_step - round.from_step).count()) reach_boundary();
  return std::nullopt;
}

void LocalTraining::say_progress(const StepResult& step) {
  const double elapsed = since(progress_at_);
  if (elapsed < kProgressEvery_s) return;
  const OpenRound& round = lease_->round;
  const auto tokens = static_cast<double>((trained_.tokens - progress_tokens_).count());
  context_.say(Progress{context_.replica, round.key, round.from_step + Steps(lease_->done),
                        trained_.tokens, step.loss, step.gradient_norm, step.lr, tokens / elapsed});
  progress_at_ = Clock::now();
  progress_tokens_ = trained_.tokens;
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
  std::vector<float> local;
  if (trained_.steps.count() > 0) {
    local.resize(static_cast<std::size_t>(context_.model.value_count()));
    context_.model.read_parameters(local);
    context_.model.write_parameters(context_.anchor());
  }
  auto failure = learner_.evaluate_batch(evaluation.next++, slice.batches, evaluation.sum);
  if (!local.empty()) context_.model.write_parameters(local);
  progress_at_ = Clock::now();  // the speed that people see is that of training
  return failure;
}

}  // namespace shoal::trainer
