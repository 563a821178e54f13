// See replica.h; loading is in replica_load.cc.
#include "trainer/replica.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "outer_opt/core/nesterov.h"
#include "trainer/checkpoint.h"

namespace shoal::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNonfiniteMax = 10;  // skipped steps in a row before the replica gives up
constexpr auto kProgressEvery = std::chrono::seconds(1);

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct VectorFacts {
  double norm = 0, max_abs = 0;
  std::int64_t nonfinite = 0;
};

VectorFacts facts_of(std::span<const float> values) {
  VectorFacts facts;
  double sum = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++facts.nonfinite;
      continue;
    }
    const double v = value;
    sum += v * v;
    facts.max_abs = std::max(facts.max_abs, std::fabs(v));
  }
  facts.norm = std::sqrt(sum);
  return facts;
}

}  // namespace

Replica::Replica(const LoadReplica& command, ReplicaContext context)
    : command_(command),
      context_(std::move(context)),
      id_(command.assign.replica),
      spec_(with_derived_fields(command.assign.spec)) {}

Replica::~Replica() {
  background_.stop();
  context_.shelf.withdraw();
}

// ---- work between commands

MaybeFailure Replica::work() {
  return evaluations_.empty() ? train_one_step() : evaluate_one_batch();
}

MaybeFailure Replica::train_one_step() {
  const OpenRound& round = training_->round;
  const auto start = Clock::now();
  StepResult result;
  const std::int64_t batch = spec_.train.batch;
  const Steps step = round.from_step + Steps(training_->done);
  if (auto failure =
          learner_->train_step(step, round.lease.first + training_->done * batch, result)) {
    return failure;
  }
  const Tokens tokens(batch * spec_.model.context);
  ++training_->done;
  totals_.steps += Steps(1);
  totals_.compute_s += since(start);
  if (result.finite) {
    totals_.tokens += tokens;
    totals_.loss_sum += result.loss * static_cast<double>(tokens.count());
  } else {
    ++totals_.skipped;
    if (learner_->nonfinite_in_a_row() >= kNonfiniteMax) {
      return Failure{ReplicaFailure::kNonFiniteLoss,
                     "loss or gradient was not finite in " + std::to_string(kNonfiniteMax) +
                         " steps in a row, the last one step " + std::to_string(step.count()) +
                         " (lower train.lr or set train.clip)"};
    }
  }
  say_progress(result);
  if (training_->done < (round.to_step - round.from_step).count()) return std::nullopt;
  reach_boundary();
  return perform();
}

void Replica::say_progress(const StepResult& step) {
  const double elapsed = since(progress_at_);
  if (elapsed < std::chrono::duration<double>(kProgressEvery).count()) return;
  const OpenRound& round = training_->round;
  const auto tokens = static_cast<double>((totals_.tokens - progress_tokens_).count());
  context_.say(Progress{id_, round.key, round.from_step + Steps(training_->done), totals_.tokens,
                        step.loss, step.gradient_norm, step.lr, tokens / elapsed});
  progress_at_ = Clock::now();
  progress_tokens_ = totals_.tokens;
}

// On the anchor: while local parameters differ from it they are put aside for one batch.
MaybeFailure Replica::evaluate_one_batch() {
  Evaluation& evaluation = evaluations_.front();
  const EvalSlice& slice = evaluation.command.slice;
  while (evaluation.next < slice.batches && evaluation.next % slice.slices != slice.slice) {
    ++evaluation.next;
  }
  if (evaluation.next >= slice.batches) {
    context_.say(FromReplica<Evaluated>{
        id_, {evaluation.command.key, slice, evaluation.sum.loss_sum, evaluation.sum.tokens}});
    evaluations_.pop_front();
    return std::nullopt;
  }
  std::vector<float> local;
  if (local_moved()) {
    local.resize(outer_->anchor.size());
    learner_->read_parameters(local);
    learner_->write_parameters(outer_->anchor);
  }
  auto failure = learner_->evaluate_batch(evaluation.next++, slice.batches, evaluation.sum);
  if (!local.empty()) learner_->write_parameters(local);
  progress_at_ = Clock::now();  // the speed that people see is that of training
  return failure;
}

void Replica::evaluate(const Evaluate& command) {
  if (!participant_ || command.key != participant_->held() || command.slice.slices <= 0) return;
  const bool known = std::any_of(evaluations_.begin(), evaluations_.end(),
                                 [&](const Evaluation& e) { return e.command == command; });
  if (!known) evaluations_.push_back({command, 0, {}});
}

// ---- events

MaybeFailure Replica::reduce_ended(const ReduceEnded& event) {
  if (!participant_ || event.work != background_.current()) return std::nullopt;
  background_.stop();
  if (event.result.ok) {
    participant_->reduced(event.attempt, event.result.outcome.average, event.result.outcome.stats,
                          actions_);
  } else {
    const outer_opt::ReduceError& error = event.result.error;
    RoundKey key = participant_->held();
    ++key.round;
    participant_->reduce_failed({key, event.attempt, error.lost, error.failure, error.detail},
                                actions_);
  }
  return perform();
}

void Replica::adam_wanted() {
  if (!participant_) return;
  auto copy = std::make_shared<AdamCopy>();
  copy->m.resize(outer_->anchor.size());
  copy->v.resize(outer_->anchor.size());
  learner_->read_adam(copy->m, copy->v);
  copy->step = learner_->adam_step();
  context_.shelf.provide_adam(std::move(copy));
}

Status Replica::write_checkpoint_to(const std::filesystem::path& folder, const RoundKey& key) {
  if (!participant_ || participant_->held() != key) {
    return Error{Code::kConflict, "the replica does not hold round " + std::to_string(key.round),
                 "", ""};
  }
  std::vector<float> m(outer_->anchor.size()), v(outer_->anchor.size());
  learner_->read_adam(m, v);
  return write_checkpoint(folder, {spec_, key, held_step_, outer_->anchor, outer_->momentum, m, v,
                                   learner_->adam_step()});
}

// ---- actions

MaybeFailure Replica::perform() {
  while (!actions_.empty()) {
    const outer_opt::Actions todo = std::exchange(actions_, {});
    for (const outer_opt::Action& action : todo) {
      auto failure = std::visit([&](const auto& one) { return perform_one(one); }, action);
      if (failure) return failure;
    }
  }
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::Train& action) {
  const OpenRound& round = action.round;
  const std::int64_t steps = (round.to_step - round.from_step).count();
  if (steps <= 0 || round.lease.first < 0 || round.lease.count != steps * spec_.train.batch) {
    return Failure{ReplicaFailure::kInternal, "a lease of " + std::to_string(round.lease.count) +
                                                  " sequences does not cover " +
                                                  std::to_string(steps) + " steps of " +
                                                  std::to_string(spec_.train.batch)};
  }
  training_ = Training{round, 0};
  progress_at_ = Clock::now();
  progress_tokens_ = totals_.tokens;
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::StopTraining&) {
  if (training_) reach_boundary();
  return std::nullopt;
}

// Between inner steps: the pseudo-gradient is taken and reported; what follows lands in actions_.
void Replica::reach_boundary() {
  const RoundReport report = make_report();
  held_step_ = training_->round.from_step + Steps(training_->done);
  training_.reset();
  participant_->boundary(report, actions_);
}

RoundReport Replica::make_report() {
  learner_->read_parameters(pseudo_gradient_);
  for (std::size_t i = 0; i < pseudo_gradient_.size(); ++i) {
    pseudo_gradient_[i] = outer_->anchor[i] - pseudo_gradient_[i];
  }
  const VectorFacts facts = facts_of(pseudo_gradient_);
  RoundReport report;
  report.key = training_->round.key;
  report.tokens = report.drawn = totals_.tokens;
  report.steps = totals_.steps;
  const auto tokens = static_cast<double>(totals_.tokens.count());
  report.train_loss = tokens > 0 ? totals_.loss_sum / tokens : 0;
  report.norm = facts.norm;
  report.max_abs = facts.max_abs;
  report.nonfinite = facts.nonfinite + totals_.skipped;
  report.compute_s = totals_.compute_s;
  return report;
}

MaybeFailure Replica::perform_one(const outer_opt::StartReduce& action) {
  const ReducePlan& plan = action.plan;
  if (plan.value_count != learner_->value_count()) {
    participant_->reduce_failed(
        {plan.key,
         plan.attempt,
         {},
         ReduceFailure::kPlanMismatch,
         "the plan has " + std::to_string(plan.value_count) + " values, the model " +
             std::to_string(learner_->value_count())},
        actions_);
    return std::nullopt;
  }
  if (solo()) {
    adopt_average_locally(plan);
    return std::nullopt;
  }
  background_.start([this, plan, contributes = action.contributes](std::uint64_t number,
                                                                   std::stop_token stop) {
    const auto own =
        contributes ? std::span<const float>(pseudo_gradient_) : std::span<const float>();
    ReduceEnded ended{number, plan.attempt, context_.node.reduce(plan, id_, own, average_, stop)};
    context_.queue.push(std::move(ended));
  });
  return std::nullopt;
}

// Without peers the new anchor is the local vector; the vote names it.
void Replica::adopt_average_locally(const ReducePlan& plan) {
  learner_->read_parameters(average_);
  participant_->reduced(plan.attempt, digest_of(std::span<const float>(average_)), {}, actions_);
}

MaybeFailure Replica::perform_one(const outer_opt::StopReduce&) {
  background_.stop();
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::TakeOuterStep& action) {
  const CommitRound& commit = action.commit;
  take_outer_step();
  if (!commit.last) held_step_ = commit.next.from_step;
  participant_->outer_step_taken({commit.key, digest_of(std::span<const float>(outer_->anchor)),
                                  digest_of(std::span<const float>(outer_->momentum))},
                                 actions_);
  context_.shelf.publish(id_, commit.key, outer_);
  evaluations_.clear();  // those of the former anchor
  evaluate({commit.key, commit.evaluate});
  return std::nullopt;
}

void Replica::take_outer_step() {
  context_.shelf.withdraw();
  if (outer_.use_count() > 1) outer_ = std::make_shared<OuterState>(*outer_);  // a joiner reads it
  if (solo()) {
    outer_->anchor = average_;
  } else {
    outer_opt::nesterov_step(spec_.sync.outer, average_, outer_->momentum, outer_->anchor);
    learner_->write_parameters(outer_->anchor);
  }
  totals_ = {};
  training_.reset();
}

MaybeFailure Replica::perform_one(const outer_opt::Say& action) {
  std::visit(
      [&](const auto& body) {
        context_.say(FromReplica<std::decay_t<decltype(body)>>{id_, body});
      },
      action.message);
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::GoStale& action) {
  return Failure{ReplicaFailure::kStale,
                 "it holds round " + std::to_string(participant_->held().round) +
                     " and was asked about round " + std::to_string(action.wanted.round)};
}

}  // namespace shoal::trainer
