// See replica.h; loading is in replica_load.cc, checkpoints in replica_checkpoint.cc, sharded outer
// momentum in replica_momentum.cc.
#include "trainer/replica/replica.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "outer_opt/cuda/device_butterfly.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

using outer_opt::VectorFacts;

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

outer_opt::Settled settled_by(const CommitRound& commit, bool contributed) {
  if (commit.outcome == RoundOutcome::kKept) return outer_opt::Settled::kCounted;
  if (commit.outcome == RoundOutcome::kDropped) return outer_opt::Settled::kDropped;
  if (contributed) return outer_opt::Settled::kCounted;
  return commit.keeps ? outer_opt::Settled::kKept : outer_opt::Settled::kDropped;
}

}  // namespace

Replica::Replica(const LoadReplica& command, ReplicaContext context)
    : command_(command),
      context_(std::move(context)),
      id_(command.assign.replica),
      spec_(with_derived_fields(command.assign.spec)),
      cut_(command.assign.cut),
      stage_(command.assign.stage),
      held_step_(command.assign.record.step) {
  if (cut_.empty()) cut_ = {whole_model(spec_.model)};
}

Replica::~Replica() {
  training_.reset();
  background_.stop();
  gatherer_.stop();
  context_.shelf.withdraw();
}

// ---- work between commands

Duration Replica::idle() const { return training_ ? training_->idle() : seconds(1); }

MaybeFailure Replica::work() {
  if (!training_) return std::nullopt;
  if (auto failure = training_->work()) return failure;
  return perform();
}

void Replica::evaluate(const Evaluate& command) {
  if (!participant_ || command.key != participant_->held() || command.slice.slices <= 0) return;
  training_->evaluate(command);
}

void Replica::view(const PipelineView& view) {
  if (training_) return training_->view(view);
  view_ = view;
}

// ---- events

MaybeFailure Replica::reduce_ended(const ReduceEnded& event) {
  if (!participant_ || event.work != background_.current()) return std::nullopt;
  background_.stop();
  if (event.result.ok) {
    const outer_opt::ReduceOutcome& outcome = event.result.outcome;
    participant_->reduced(event.attempt, outcome.average, outcome.stats, outcome.left_out,
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
  if (!participant_ || shares_adam()) return;
  auto copy = std::make_shared<AdamCopy>();
  copy->m.resize(outer_->anchor.size());
  copy->v.resize(static_cast<std::size_t>(model_->second_moment_count()));
  model_->read_adam(copy->m, copy->v);
  copy->step = model_->adam_step();
  context_.shelf.provide_adam(std::move(copy));
}

// ---- actions

MaybeFailure Replica::perform() {
  while (!device_failure_ && !actions_.empty()) {
    const outer_opt::Actions todo = std::exchange(actions_, {});
    for (const outer_opt::Action& action : todo) {
      auto failure = std::visit([&](const auto& one) { return perform_one(one); }, action);
      if (failure) return failure;
      if (device_failure_) return device_failure_;
    }
  }
  return device_failure_;
}

void Replica::take_note(const Status& of_device) {
  if (of_device || device_failure_) return;
  device_failure_ = Failure{ReplicaFailure::kDeviceLost, to_string(of_device.error())};
}

MaybeFailure Replica::perform_one(const outer_opt::Train& action) {
  take_back_eagerly();
  training_key_ = action.round.key;
  own_fragment_ = action.round.fragment;
  if (!action.round.measure.empty()) context_.node.measure(id_, action.round.measure);
  return training_->open(action.round);
}

MaybeFailure Replica::perform_one(const outer_opt::StopTraining& action) {
  training_->stop(action.at);
  return std::nullopt;
}

// Between inner steps: the pseudo-gradient is taken and reported; what follows lands in actions_.
void Replica::reach_boundary(const Trained& trained) {
  end_gathering();
  const RoundReport report = make_report(trained);
  if (report.nonfinite == 0 && training_->goes_on()) begin_eagerly();
  if (training_->goes_on()) next_cut_ = moments_at(training_key_);
  participant_->boundary(report, actions_);
}

const outer_opt::Fragment& Replica::values_of(std::int32_t fragment) const {
  if (fragment == 0) return whole_;
  SHOAL_CHECK(fragment <= static_cast<std::int32_t>(fragments_.size()), "no such fragment");
  return fragments_[static_cast<std::size_t>(fragment) - 1];
}

VectorFacts Replica::take_contribution() {
  const outer_opt::Fragment& fragment = values_of(own_fragment_);
  if (device_) {
    const auto facts = device_->take_pseudo_gradient(model_->parameters_in_place(), fragment);
    if (facts) return *facts;
    take_note(facts.error());
    return {};
  }
  read_contribution();
  const auto values = static_cast<std::size_t>(outer_opt::value_count(fragment));
  VectorFacts facts = facts_of(std::span(pseudo_gradient_).first(values));
  // Values that are not finite spread: those of another fragment count, too.
  if (own_fragment_ > 0) facts.nonfinite += facts_of(average_).nonfinite;
  return facts;
}

void Replica::read_contribution() {
  if (shares_adam()) return model_->read_gradient(pseudo_gradient_);
  if (own_fragment_ > 0) return read_fragment();
  model_->read_parameters(pseudo_gradient_);
  for (std::size_t i = 0; i < pseudo_gradient_.size(); ++i) {
    pseudo_gradient_[i] = outer_->anchor[i] - pseudo_gradient_[i];
  }
}

// Nothing is being reduced now: the room of the average takes the local parameters.
void Replica::read_fragment() {
  model_->read_parameters(average_);
  std::size_t packed = 0;
  for (const outer_opt::ValueRange& range : values_of(own_fragment_)) {
    for (std::int64_t i = 0; i < range.count; ++i) {
      const auto at = static_cast<std::size_t>(range.first + i);
      pseudo_gradient_[packed++] = outer_->anchor[at] - average_[at];
    }
  }
}

RoundReport Replica::make_report(const Trained& trained) {
  const VectorFacts facts = take_contribution();
  tokens_reported_ = trained.tokens;
  RoundReport report;
  report.key = training_key_;
  report.tokens = trained.tokens;
  if (own_fragment_ > 0) {
    report.tokens += tokens_behind_[static_cast<std::size_t>(own_fragment_) - 1];
  }
  report.steps = trained.steps;
  const auto drawn = static_cast<double>(trained.drawn.count());
  report.train_loss = drawn > 0 ? trained.loss_sum / drawn : 0;
  report.norm = facts.norm;
  report.max_abs = facts.max_abs;
  report.nonfinite = facts.nonfinite;
  report.skipped = Steps(trained.skipped);
  report.unused = trained.unused;
  report.compute_s = trained.compute_s;
  report.drawn = trained.drawn;
  report.stood_s = trained.stood_s;
  report.links = context_.node.take_links();
  return report;
}

MaybeFailure Replica::perform_one(const outer_opt::StartReduce& action) {
  const ReducePlan& plan = action.plan;
  first_member_ = std::none_of(plan.members.begin(), plan.members.end(),
                               [this](const auto& member) { return member.replica < id_; });
  averaged_fragment_ = plan.fragment;
  contributed_ = action.contributes;
  share_ = outer_opt::share_of(plan, id_);
  const std::string mismatch = mismatch_of(plan);
  if (!mismatch.empty()) {
    participant_->reduce_failed(
        {plan.key, plan.attempt, {}, ReduceFailure::kPlanMismatch, mismatch}, actions_);
    return std::nullopt;
  }
  if (solo()) {
    adopt_average_locally(plan);
    return std::nullopt;
  }
  ReducePlan told = plan;
  if (in_groups()) {
    read_contribution();  // an earlier attempt made something else of it
    group_input(spec_, id_, *outer_, pseudo_gradient_, told);
  }
  background_.start([this, plan = std::move(told), contributes = action.contributes](
                        std::uint64_t number, std::stop_token stop) {
    context_.queue.push(ReduceEnded{number, plan.attempt, reduce(plan, contributes, stop)});
  });
  return std::nullopt;
}

// In the background, as all that follows from here to own_input(). Meanwhile the compute thread
// uses neither pseudo-gradient nor average, here or on the device.
outer_opt::ReduceResult Replica::reduce(const ReducePlan& plan, bool contributes,
                                        std::stop_token stop) {
  if (!device_) return reduce_on_host(plan, contributes, stop);
  if (!outer_opt::DeviceButterfly::suits(plan)) return reduce_from_device(plan, contributes, stop);
  auto session = device_->make_session(plan, id_, contributes);
  if (session) return context_.node.reduce_with(std::move(*session), stop);
  return {false, {}, {ReduceFailure::kPlanMismatch, {}, to_string(session.error())}};
}

outer_opt::ReduceResult Replica::reduce_on_host(const ReducePlan& plan, bool contributes,
                                                std::stop_token stop) {
  outer_opt::ReduceInput own = own_input(plan, contributes);
  if (plan.owner_step) {
    if (auto error = stage_momentum(plan, stop)) return {false, {}, std::move(*error)};
    own.momentum = own_momentum(plan);
  }
  const auto average = std::span(average_).first(static_cast<std::size_t>(plan.value_count));
  outer_opt::ReduceResult result = context_.node.reduce(plan, id_, own, average, stop);
  if (result.ok) reduced_average_ = digest_of(std::span<const float>(average));
  return result;
}

// A ring, say: the host computes what the device brought and takes.
outer_opt::ReduceResult Replica::reduce_from_device(const ReducePlan& plan, bool contributes,
                                                    std::stop_token stop) {
  const auto values = static_cast<std::size_t>(plan.value_count);
  pseudo_gradient_.resize(values);
  average_.resize(values);
  Status moved = device_->read_pseudo_gradient(pseudo_gradient_);
  outer_opt::ReduceResult result;
  if (moved) result = reduce_on_host(plan, contributes, stop);
  if (moved && result.ok) moved = device_->write_average(average_);
  if (moved) return result;
  return {false, {}, {ReduceFailure::kInternal, {}, to_string(moved.error())}};
}

// Why this replica cannot take part in the plan; empty: it can.
std::string Replica::mismatch_of(const ReducePlan& plan) const {
  if (plan.fragment > static_cast<std::int32_t>(fragments_.size())) return "no such fragment";
  const std::int64_t values = outer_opt::value_count(values_of(plan.fragment));
  if (plan.value_count != values) {
    return "the plan has " + std::to_string(plan.value_count) + " values, the replica " +
           std::to_string(values);
  }
  if (plan.owner_step.has_value() != sharded()) return "owners take the outer step only if sharded";
  if (contributed_ && plan.fragment != own_fragment_) return "another fragment was reported";
  return {};
}

// An attempt after an aborted round encodes anew: the residual is still the old
// one, the pseudo-gradient has grown.
outer_opt::ReduceInput Replica::own_input(const ReducePlan& plan, bool contributes) {
  encoded_.clear();
  if (!contributes) return {};
  if (plan.codec != CodecKind::kSparse2) {
    return {std::span(pseudo_gradient_).first(static_cast<std::size_t>(plan.value_count)), {}};
  }
  if (!feedback_) feedback_.emplace(pseudo_gradient_.size(), spec_.sync.feedback);
  encoded_ = feedback_->encode(pseudo_gradient_);
  return {pseudo_gradient_, encoded_};
}

// Without peers the new anchor is the local vector; the vote names it.
void Replica::adopt_average_locally(const ReducePlan& plan) {
  model_->read_parameters(average_);
  participant_->reduced(plan.attempt, digest_of(std::span<const float>(average_)), {}, {},
                        actions_);
}

MaybeFailure Replica::perform_one(const outer_opt::StopReduce&) {
  background_.stop();
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::TakeOuterStep& action) {
  const CommitRound& commit = action.commit;
  held_step_ = commit.record.step;
  const outer_opt::Settled settled = settled_by(commit, contributed_);
  Applied applied = before_step(commit);
  commit.outcome == RoundOutcome::kAveraged ? adopt_outer_step(commit, settled) : stay(settled);
  if (device_failure_) return device_failure_;
  training_->committed(commit.key.round, held_step_, settled);
  come_to_cut(commit.key);
  applied.anchor = digest_of(std::span<const float>(outer_->anchor));
  applied.momentum = momentum_digest(*outer_);
  held_digests_ = {applied.anchor, applied.momentum};
  participant_->outer_step_taken(applied, actions_);
  context_.shelf.publish(id_, commit.key, outer_);
  sample(commit);
  evaluate({commit.key, commit.evaluate});
  return std::nullopt;
}

// What the step begins with, read anew: memory may have changed since it was said. Of ddp, which
// steps all the time, as it was said.
Applied Replica::before_step(const CommitRound& commit) const {
  Applied applied{.key = commit.key};
  applied.base = held_digests_.first;
  applied.base_momentum = held_digests_.second;
  if (!shares_adam()) {
    applied.base = digest_of(std::span<const float>(outer_->anchor));
    applied.base_momentum = momentum_digest(*outer_);
  }
  if (commit.outcome != RoundOutcome::kAveraged) return applied;
  applied.average = commit.average;
  const auto values =
      static_cast<std::size_t>(outer_opt::value_count(values_of(averaged_fragment_)));
  if (device_ || solo() || average_.size() < values) return applied;
  const Digest now = digest_of(std::span<const float>(average_).first(values));
  if (now != reduced_average_) applied.average = now;
  return applied;
}

void Replica::adopt_outer_step(const CommitRound& commit, outer_opt::Settled settled) {
  context_.shelf.withdraw();
  if (!encoded_.empty()) {
    const Status kept = feedback_->commit(pseudo_gradient_, encoded_);
    SHOAL_CHECK(kept.ok(), "the own encoding counted in the average");
    encoded_.clear();
  }
  if (outer_.use_count() > 1) outer_ = std::make_shared<OuterState>(*outer_);  // a joiner reads it
  if (solo()) {
    outer_->anchor = average_;
    return;
  }
  // Nothing of this replica is being averaged: the room of its contribution is free.
  if (settled == outer_opt::Settled::kKept) read_contribution();
  if (staged_) outer_->shards = std::move(*staged_);
  staged_.reset();
  const outer_opt::Fragment& fragment = values_of(averaged_fragment_);
  const auto values = static_cast<std::size_t>(outer_opt::value_count(fragment));
  if (device_) {
    take_note(device_->step({commit.outer_lr, spec_.sync.outer.momentum}, fragment,
                            outer_->momentum, outer_->anchor));
  } else {
    take_outer_step(spec_, commit, decay_ranges_, fragment, std::span(average_).first(values),
                    *outer_);
  }
  learn_average(commit.outer_lr);
  settle_local(settled);
  if (shares_adam()) model_->clear_gradient();
}

// Its group gave up. The anchor is still the one that it was, of the next round now.
void Replica::stay(outer_opt::Settled settled) {
  context_.shelf.withdraw();
  if (settled == outer_opt::Settled::kDropped) model_->write_parameters(outer_->anchor);
}

// A replica that had no part in the result has nothing of its own that counts, unless it is kept.
void Replica::settle_local(outer_opt::Settled settled) {
  if (settled == outer_opt::Settled::kKept) return move_with_anchor();
  count_tokens_behind();
  if (!contributed_) return model_->write_parameters(outer_->anchor);
  adopting_fragment_ = averaged_fragment_;
  if (!training_->goes_on()) adopt_fragment(0);
}

// The pseudo-gradient was taken before the step and is what it was, to rounding.
void Replica::move_with_anchor() {
  for (std::size_t i = 0; i < pseudo_gradient_.size(); ++i) {
    pseudo_gradient_[i] = outer_->anchor[i] - pseudo_gradient_[i];
  }
  model_->write_parameters(pseudo_gradient_);
}

void Replica::adopt_fragment(double blend) {
  const outer_opt::Fragment& fragment = values_of(adopting_fragment_);
  if (device_) {
    take_note(device_->adopt(fragment, blend, model_->parameters_in_place()));
    return model_->parameters_written();
  }
  if (blend == 0 && fragment == whole_) return model_->write_parameters(outer_->anchor);
  std::vector<float> local(outer_->anchor.size());
  model_->read_parameters(local);
  outer_opt::adopt(fragment, blend, outer_->anchor, local);
  model_->write_parameters(local);
}

// Some steps behind the boundary.
void Replica::adopt_later() { eager_ ? correct_local() : adopt_fragment(spec_.sync.blend); }

void Replica::count_tokens_behind() {
  for (Tokens& tokens : tokens_behind_) tokens += tokens_reported_;
  const bool all = !contributed_ || averaged_fragment_ == 0;
  if (all) std::fill(tokens_behind_.begin(), tokens_behind_.end(), Tokens());
  if (!all) tokens_behind_[static_cast<std::size_t>(averaged_fragment_) - 1] = Tokens();
  tokens_reported_ = Tokens();
}

MaybeFailure Replica::perform_one(const outer_opt::Say& action) {
  std::visit(
      [&](const auto& body) {
        context_.say(FromReplica<std::decay_t<decltype(body)>>{id_, body});
      },
      action.message);
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::ReturnToAnchor& action) {
  background_.stop();
  gatherer_.stop();
  gathering_.reset();
  const ResumeAt& command = action.command;
  held_step_ = command.record.step;
  model_->write_parameters(outer_->anchor);
  contributed_ = false;
  encoded_.clear();
  staged_.reset();
  tokens_reported_ = Tokens();
  std::fill(tokens_behind_.begin(), tokens_behind_.end(), Tokens());
  if (spec_.sync.eager) eager_.emplace(fragments_);
  view_.reset();
  training_.reset();  // its neighbours know one of this name only
  training_ = make_training();
  come_to_cut(command.key);
  context_.shelf.publish(id_, command.key, outer_);
  say_loaded();
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::GoStale& action) {
  return Failure{ReplicaFailure::kStale,
                 "it holds round " + std::to_string(participant_->held().round) +
                     " and was asked about round " + std::to_string(action.wanted.round)};
}

}  // namespace shoal::trainer
