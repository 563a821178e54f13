// See pipeline_training.h.
#include "replica/runtime/pipeline_training.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/prng.h"
#include "job/job_spec.h"
#include "replica/runtime/logged_values.h"

namespace shoal::replica {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kTellEvery = seconds(1);
constexpr Duration kDraftLook = milliseconds(50);  // whether the time of a sample is up

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

swarm::StageRuntimeOptions options_of(const JobSpec& spec, ReplicaId replica,
                                      const PipelinePlace& place) {
  swarm::StageRuntimeOptions options;
  options.session.self = replica;
  options.session.stage = place.stage;
  options.session.stages = place.stages;
  options.session.microbatch = spec.train.microbatch;
  options.session.context = spec.model.context;
  options.session.schedule = spec.swarm.schedule;
  options.session.seed = mix_seed(spec.train.seed, replica.n);
  options.job = place.held.job;
  options.epoch = place.held.epoch;
  options.codec = spec.swarm.activations;
  options.batch = spec.train.batch;
  return options;
}

}  // namespace

PipelineTraining::PipelineTraining(TrainingContext context, const PipelinePlace& place,
                                   const MakeRuntime& make)
    : context_(std::move(context)),
      place_(place),
      stage_(context_.compute.make_stage()),
      told_at_(Clock::now()) {
  progress_.replica = context_.replica;
  runtime_ = make(options_of(context_.spec, context_.replica, place), *stage_, *this,
                  place.held.round, place.step.count());
}

MaybeFailure PipelineTraining::open(const OpenRound& round) {
  const std::int64_t microbatch = context_.spec.train.microbatch;
  if (!outer_opt::well_formed(round.leases, microbatch)) {
    return Failure{ReplicaFailure::kInternal,
                   "a lease of " + std::to_string(count_sequences(round.leases)) +
                       " sequences is not one of microbatches of " + std::to_string(microbatch)};
  }
  open_ = true;
  speed_.go_on(Clock::now());
  if (stalled_since_) trained_.stall_s += since(*stalled_since_);
  stalled_since_.reset();
  key_ = round.key;
  progress_.key = round.key;
  context_.compute.will_train(round.leases);
  runtime_->open(round);
  return std::nullopt;
}

// Only routers decide to close a round together; the other stages hear it from them.
void PipelineTraining::stop(outer_opt::StopAt at) {
  if (at == outer_opt::StopAt::kAtOnce) return runtime_->stop();
  if (is_router()) runtime_->close();
}

// What it drew stays counted: that says which sequences are used up.
void PipelineTraining::drop_trained() {
  trained_.tokens = Tokens();
  if (!std::isfinite(trained_.loss_sum)) trained_.loss_sum = 0;
}

void PipelineTraining::committed(RoundNumber round, Steps next_step, outer_opt::CommitOutcome) {
  end_sample();
  open_ = false;
  speed_.pause(Clock::now());
  trained_ = {};
  since_boundary_ = progress_.tokens = Tokens();
  runtime_->committed(round, next_step.count());
}

void PipelineTraining::evaluate(const Evaluate& command) {
  if (is_router()) runtime_->evaluate(command.key, command.slice);
}

void PipelineTraining::view(const PipelineView& view) { runtime_->view(view); }

void PipelineTraining::sample(RoundNumber round) {
  end_sample();
  draft_.emplace(context_.spec, context_.compute.tokenizer(), context_.compute.prompt(), round,
                 Clock::now());
  if (draft_->window().empty()) return end_sample();  // there is no such text
  runtime_->sample({draft_->window().begin(), draft_->window().end()});
}

void PipelineTraining::cut_off(const std::string& detail) {
  std::cerr << "shoal-trainer: WARNING: " << to_string(context_.replica) << " waits: " << detail
            << std::endl;
}

bool PipelineTraining::next_token(std::span<const float> logits,
                                  std::vector<std::uint32_t>& window) {
  if (!draft_) return false;
  draft_->take(logits);
  window.assign(draft_->window().begin(), draft_->window().end());
  return !draft_->over(Clock::now());
}

void PipelineTraining::end_sample() {
  if (!draft_) return;
  runtime_->end_sample();
  std::string text = draft_->text();
  draft_.reset();
  context_.sampled(std::move(text));
}

MaybeFailure PipelineTraining::work() {
  const auto start = Clock::now();
  swarm::MaybeComputeFailure failure;
  Duration wait;
  const Steps before = trained_.steps;
  working_since_ = start;
  const bool computed = runtime_->work(failure, wait);
  working_since_.reset();
  if (failure) return Failure{failure->kind, failure->detail};
  if (draft_ && draft_->over(Clock::now())) end_sample();
  idle_ = computed ? Duration{} : std::min(wait, draft_ ? kDraftLook : kTellEvery);
  const bool stepped = trained_.steps != before;
  if (open_ && (computed || stepped)) trained_.compute_s += since(start);
  if (since(told_at_) * 1e9 >= static_cast<double>(kTellEvery.ns)) tell_people();
  return std::nullopt;
}

void PipelineTraining::stepped(std::int64_t step, Tokens tokens,
                               const swarm::StageCompute::Stepped& stepped, double loss) {
  trained_.steps += Steps(1);
  if (!stepped.finite) ++trained_.skipped;
  since_boundary_ += tokens;
  speed_.trained(tokens);
  progress_.step = Steps(step + 1);
  progress_.tokens = trained_.tokens + since_boundary_;
  progress_.train_loss = loss;
  progress_.gradient_norm = stepped.gradient_norm;
  progress_.lr = stepped.lr;
  keep_newest(progress_.logged, stepped.logged);
}

void PipelineTraining::boundary(const swarm::ReachBoundary& boundary,
                                const outer_opt::LeaseRuns& unused) {
  open_ = false;
  stalled_since_ = Clock::now();
  speed_.pause(*stalled_since_);
  since_boundary_ = Tokens();
  trained_.tokens += boundary.tokens;
  trained_.drawn += boundary.drawn_tokens;
  trained_.loss_sum += boundary.loss_sum;
  trained_.unused = unused;
  if (!progress_.logged.empty()) say_progress();  // there may be no step for long
  if (working_since_) trained_.compute_s += since(*working_since_);  // the last pass and step
  context_.boundary(trained_);
}

void PipelineTraining::evaluated(const swarm::EvaluationDone& evaluated) {
  context_.say(FromReplica<Evaluated>{
      context_.replica, {evaluated.key, evaluated.slice, evaluated.loss_sum, evaluated.tokens}});
}

void PipelineTraining::tell_people() {
  told_at_ = Clock::now();
  PipelineStats stats = runtime_->stats();
  stats.replica = context_.replica;
  context_.say(stats);
  if (!open_ || !speed_.due(told_at_)) return;
  progress_.tokens_per_s = speed_.read(told_at_);
  say_progress();
}

void PipelineTraining::say_progress() {
  context_.say(progress_);
  progress_.logged.clear();
}

}  // namespace shoal::replica
