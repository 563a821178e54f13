// See replica.h; loading is in replica_load.cc, checkpoints in replica_checkpoint.cc, sharded outer
// momentum in replica_momentum.cc.
#include "replica/runtime/replica.h"

#include <algorithm>

#include "outer_opt/cuda/device_butterfly.h"
#include "replica/runtime/cut.h"
#include "threads/idle_memory.h"

namespace shoal::replica {

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
  end_writing();
  context_.state_server.withdraw();
}

// ---- work between commands

Duration Replica::idle() const { return training_ ? training_->idle() : seconds(1); }

MaybeFailure Replica::work() {
  if (!training_) return std::nullopt;
  if (auto failure = training_->work()) return failure;
  return perform();
}

MaybeFailure Replica::evaluate(const Evaluate& command) {
  if (auto failure = enter()) return failure;
  const bool held = participant_ && command.key == participant_->held();
  if (held && command.slice.slices > 0) training_->evaluate(command);
  return std::nullopt;
}

MaybeFailure Replica::view(const PipelineView& view) {
  if (auto failure = enter()) return failure;
  training_ ? training_->view(view) : void(view_ = view);
  return std::nullopt;
}

// ---- events

MaybeFailure Replica::reduce_ended(const ReduceEnded& event) {
  if (!participant_ || event.work != background_.current()) return std::nullopt;
  background_.stop();
  if (event.result.ok) {
    const outer_opt::ReduceOutcome& outcome = event.result.outcome;
    participant_->reduced(event.attempt, outcome.average, outcome.stats, outcome.seen, actions_);
  } else {
    const outer_opt::ReduceError& error = event.result.error;
    RoundKey key = participant_->held();
    ++key.round;
    participant_->reduce_failed({key, event.attempt, error.lost, error.failure, error.detail},
                                actions_);
  }
  return perform();
}

// A waiting joiner asks about once a second until there is a copy: only the first event makes one.
void Replica::moments_wanted() {
  if (!participant_ || loop_->state().shares_adam()) return;
  if (!context_.state_server.lacks_moments()) return;
  auto copy = std::make_shared<outer_opt::MomentsCopy>();
  if (compute_->has_own_state()) {
    copy->first = compute_->own_state();
    copy->step = ++own_states_;
    copy->is_open = true;
    return context_.state_server.provide_moments(std::move(copy));
  }
  copy->first.resize(static_cast<std::size_t>(compute_->first_moment_count()));
  copy->second.resize(static_cast<std::size_t>(compute_->second_moment_count()));
  compute_->read_adam(copy->first, copy->second);
  copy->step = compute_->adam_step();
  context_.state_server.provide_moments(std::move(copy));
}

// ---- actions

MaybeFailure Replica::perform() {
  while (!device_failure() && !actions_.empty()) {
    const outer_opt::Actions todo = std::exchange(actions_, {});
    for (const outer_opt::Action& action : todo) {
      auto failure = std::visit([&](const auto& one) { return perform_one(one); }, action);
      if (failure) return failure;
      if ((failure = device_failure())) return failure;
    }
  }
  return device_failure();
}

MaybeFailure Replica::device_failure() const {
  if (!loop_ || loop_->status()) return std::nullopt;
  return Failure{ReplicaFailure::kDeviceLost, to_string(loop_->status().error())};
}

MaybeFailure Replica::perform_one(const outer_opt::Train& action) {
  loop_->open(action.round);
  training_key_ = action.round.key;
  if (!action.round.measure.empty()) context_.node.measure(id_, action.round.measure);
  return training_->open(action.round);
}

MaybeFailure Replica::perform_one(const outer_opt::StopTraining& action) {
  training_->stop(action.at);
  return std::nullopt;
}

// Between inner steps: the contribution is taken and reported; what follows lands in actions_.
void Replica::reach_boundary(const Trained& trained) {
  end_gathering();
  RoundReport report = make_report(trained);
  loop_->boundary(report, training_->goes_on());
  if (report.nonfinite > 0) return_from_nonfinite();
  if (training_->goes_on()) next_cut_ = moments_at(training_key_);
  participant_->boundary(report, actions_);
}

// Else the replica would report values that are not finite for ever: parameters return with the
// next commit at the latest, but moments that are not finite make the first step after it so again.
void Replica::return_from_nonfinite() {
  loop_->drop_training();
  training_->drop_trained();
  if (!loop_->state().shares_adam()) clear_moments();
}

void Replica::clear_moments() {
  const std::vector<float> m(static_cast<std::size_t>(compute_->first_moment_count()));
  const std::vector<float> v(static_cast<std::size_t>(compute_->second_moment_count()));
  compute_->write_adam(m, v, 0);
}

RoundReport Replica::make_report(const Trained& trained) {
  RoundReport report;
  report.key = training_key_;
  report.tokens = trained.tokens;
  report.steps = trained.steps;
  const auto drawn = static_cast<double>(trained.drawn.count());
  report.train_loss = drawn > 0 ? trained.loss_sum / drawn : 0;
  report.skipped = Steps(trained.skipped);
  report.unused = trained.unused;
  report.compute_s = trained.compute_s;
  report.drawn = trained.drawn;
  report.stall_s = trained.stall_s;
  report.links = context_.node.take_links();
  return report;
}

MaybeFailure Replica::perform_one(const outer_opt::StartReduce& action) {
  const ReducePlan& plan = action.plan;
  if (!plan.audited.empty()) {
    if (action.contributes && !loop_->contribution_is_intact(plan)) {
      return Failure{ReplicaFailure::kDigestMismatch,
                     "its memory changed after the boundary: what it contributed to round " +
                         std::to_string(plan.key.round) + " is not there any more"};
    }
    background_.start(
        [this, plan, contributes = action.contributes](std::uint64_t number, std::stop_token stop) {
          context_.queue.push(ReduceEnded{number, plan.attempt, audit(plan, contributes, stop)});
        });
    return std::nullopt;
  }
  first_member_ = std::none_of(plan.members.begin(), plan.members.end(),
                               [this](const auto& member) { return member.replica < id_; });
  OuterLoop::Attempt attempt = loop_->plan(plan, action.contributes);
  if (!attempt.mismatch.empty()) {
    participant_->reduce_failed(
        {plan.key, plan.attempt, {}, ReduceFailure::kPlanMismatch, attempt.mismatch}, actions_);
    return std::nullopt;
  }
  if (attempt.alone) {
    participant_->reduced(plan.attempt, *attempt.alone, {}, {}, actions_);
    return std::nullopt;
  }
  background_.start(
      [this, plan, contributes = action.contributes](std::uint64_t number, std::stop_token stop) {
        context_.queue.push(ReduceEnded{number, plan.attempt, reduce(plan, contributes, stop)});
      });
  if (!training_->goes_on()) loop_->read_base();
  return std::nullopt;
}

// In the background, as the next ones. The few values of an audit are reduced by the host.
outer_opt::ReduceResult Replica::audit(const ReducePlan& plan, bool contributes,
                                       std::stop_token stop) {
  const outer_opt::ReduceInput own = loop_->audit_input(plan, contributes);
  outer_opt::ReduceResult result =
      context_.node.reduce(plan, id_, own, loop_->audit_average(), stop);
  if (result.ok) result.outcome.seen.disputed = loop_->disputed(plan);
  return result;
}

// Meanwhile the compute thread uses neither contribution nor
// average, here or on the device.
outer_opt::ReduceResult Replica::reduce(const ReducePlan& plan, bool contributes,
                                        std::stop_token stop) {
  if (on_device_ == nullptr) return reduce_on_host(plan, contributes, stop);
  if (!outer_opt::DeviceButterfly::suits(plan)) return reduce_from_device(plan, contributes, stop);
  auto session = on_device_->make_session(plan, id_, contributes);
  if (session) return context_.node.reduce_with(std::move(*session), stop);
  return {false, {}, {ReduceFailure::kPlanMismatch, {}, to_string(session.error())}};
}

outer_opt::ReduceResult Replica::reduce_on_host(const ReducePlan& plan, bool contributes,
                                                std::stop_token stop) {
  if (plan.owner_step) {
    if (auto error = fetch_momentum(plan, stop)) return {false, {}, std::move(*error)};
  }
  const outer_opt::ReduceInput own = loop_->input(plan, contributes);
  outer_opt::ReduceResult result =
      context_.node.reduce(plan, id_, own, loop_->room(plan, plan.frame_values), stop);
  if (result.ok) loop_->reduced();
  return result;
}

// A ring, say: the host computes what the device brought and takes.
outer_opt::ReduceResult Replica::reduce_from_device(const ReducePlan& plan, bool contributes,
                                                    std::stop_token stop) {
  Status moved = on_device_->bring_contribution(plan.value_count);
  outer_opt::ReduceResult result;
  if (moved) result = reduce_on_host(plan, contributes, stop);
  if (moved && result.ok) moved = on_device_->take_average();
  if (moved) return result;
  return {false, {}, {ReduceFailure::kInternal, {}, to_string(moved.error())}};
}

MaybeFailure Replica::perform_one(const outer_opt::StopReduce&) {
  background_.stop();
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::TakeOuterStep& action) {
  const CommitRound& commit = action.commit;
  held_step_ = commit.record.step;
  context_.state_server.begin_step();
  const auto committed = loop_->commit(commit, training_->goes_on());
  if (auto failure = device_failure()) return failure;
  rest();
  training_->committed(commit.key.round, held_step_, committed.outcome);
  come_to_cut(commit.key);
  participant_->outer_step_taken(committed.applied, actions_);
  context_.state_server.publish(id_, commit.key, loop_->shared_state());
  sample(commit);
  return evaluate({commit.key, commit.evaluate});
}

// With ddp the next round begins at once.
void Replica::rest() {
  if (spec_.sync.algorithm == SyncAlgorithm::kDdp) return;
  loop_->vectors().visit_idle(forget_values);
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
  loop_->return_to_anchor(command.key);
  view_.reset();
  training_.reset();  // its neighbors know one of this name only
  training_ = make_training();
  come_to_cut(command.key);
  context_.state_server.publish(id_, command.key, loop_->shared_state());
  say_loaded();
  return std::nullopt;
}

MaybeFailure Replica::perform_one(const outer_opt::GoStale& action) {
  return Failure{ReplicaFailure::kStale,
                 "it holds round " + std::to_string(participant_->held().round) +
                     " and was asked about round " + std::to_string(action.wanted.round)};
}

}  // namespace shoal::replica
