// See training.h.
#include "bench/convergence/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include "base/check.h"
#include "base/prng.h"
#include "bench/convergence/reduce.h"
#include "coordinator/core/decisions/arrivals.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/round/clip.h"
#include "outer_opt/core/round/groups.h"
#include "outer_opt/core/step/eager.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/shared_adamw.h"
#include "trainer/model/learner.h"
#include "trainer/plain/outer_state.h"

namespace shoal::bench {
namespace {

using namespace trainer;

constexpr float kAttack = -10;
constexpr std::uint64_t kFaultStream = 0xfa17;

JobSpec spec_of(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed) {
  JobSpec spec;
  spec.name = "convergence";
  spec.model = setting.model;
  spec.data.train = setting.text;
  spec.train.steps = setting.steps;
  spec.train.batch = setting.batch * arm.batch_factor;
  spec.train.optimizer = arm.optimizer;
  spec.train.lr = lr;
  spec.train.min_lr = lr / 10;
  spec.train.warmup = Steps(std::min<std::int64_t>(50, setting.steps.count() / 10));
  spec.train.seed = seed;
  spec.sync = arm.sync;
  return with_derived_fields(spec);
}

void must(const MaybeFailure& failure) {
  if (failure) throw std::runtime_error(failure->detail);
}

struct Worker {
  std::unique_ptr<StageModel> model;
  std::unique_ptr<Learner> learner;
  trainer::OuterState* outer = nullptr;  // of all workers, its own where rounds go in groups
  std::vector<float> contribution;
  std::vector<std::byte> encoded;  // of sparse2
  std::unique_ptr<outer_opt::ErrorFeedback> feedback;
  std::unique_ptr<outer_opt::EagerUpdates> eager;
  bool lost = false;        // in this round
  std::int64_t behind = 0;  // inner steps that no average has yet
};

class Swarm {
 public:
  Swarm(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed)
      : setting_(setting),
        arm_(arm),
        spec_(spec_of(setting, arm, lr, seed)),
        units_(whole_model(spec_.model)),
        ranges_(decay_ranges(parameter_layout(spec_.model, units_))),
        fragments_(outer_opt::cut_fragments(stage_sizes(spec_.model, units_), arm.sync.fragments)),
        faults_(mix_seed(seed, kFaultStream)) {
    auto data = Dataset::open(spec_);
    if (!data) throw std::runtime_error(to_string(data.error()));
    const std::shared_ptr<const Dataset> text = std::move(*data);
    for (std::int64_t i = 0; i < arm.workers; ++i) workers_.push_back(make_worker(text));
    make_outer_states();
  }

  Trajectory run() {
    const auto start = std::chrono::steady_clock::now();
    Trajectory out;
    for (Steps at; at < setting_.steps;) {
      const Steps to = std::min(at + round_length(), setting_.steps);
      train_round(at, to);
      const bool finite = synchronous() ? synchronise(to) : true;
      const std::int64_t due = (static_cast<std::int64_t>(out.curve.size()) + 1) *
                               setting_.steps.count() / setting_.points;
      at = to;
      if (finite && to.count() < due) continue;
      out.curve.push_back({to, finite ? evaluate() : std::numeric_limits<double>::infinity()});
      if (!std::isfinite(out.final_loss())) break;
    }
    out.bytes_per_step = bytes_sent_ / static_cast<double>(setting_.steps.count());
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  bool synchronous() const { return arm_.sync.algorithm != SyncAlgorithm::kNone; }
  bool in_groups() const { return outer_opt::averages_in_groups(arm_.sync); }
  bool sparse() const { return arm_.sync.codec == CodecKind::kSparse2; }
  bool moves_with_anchor() const { return arm_.after_drop == AfterDrop::kMovesWithAnchor; }
  Steps round_length() const {
    return synchronous() ? outer_opt::round_length(arm_.sync) : Steps(10);
  }

  Worker make_worker(const std::shared_ptr<const Dataset>& text) {
    Worker worker;
    must(StageModel::create(spec_, units_, {}, worker.model));
    worker.model->seed();
    worker.learner = std::make_unique<Learner>(*worker.model, text);
    const auto count = static_cast<std::size_t>(worker.model->value_count());
    worker.contribution.resize(count);
    if (sparse()) {
      worker.feedback = std::make_unique<outer_opt::ErrorFeedback>(count, arm_.sync.feedback);
    }
    if (arm_.sync.eager) worker.eager = std::make_unique<outer_opt::EagerUpdates>(fragments_);
    return worker;
  }

  void make_outer_states() {
    whole_ = {{0, workers_[0].model->value_count()}};
    outer_.resize(in_groups() ? workers_.size() : 1, zero_outer_state(arm_.sync, whole_[0].count));
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].outer = &outer_[i % outer_.size()];
      workers_[i].model->read_parameters(workers_[i].outer->anchor);
    }
  }

  // With overlap the result of the round before comes in between.
  void train_round(Steps from, Steps to) {
    const Steps adoption = round_ > 0 ? from + overlap_ : from;
    train_steps(from, adoption);
    if (adoption > from) adopt_late();
    train_steps(adoption, to);
  }

  // Every worker has a run of sequences of its own, as a lease is.
  void train_steps(Steps from, Steps to) {
    const std::int64_t steps = (to - from).count();
    for (Worker& worker : workers_) {
      worker.behind += steps;
      for (std::int64_t i = 0; i < steps; ++i, next_sequence_ += spec_.train.batch) {
        StepResult result;
        must(worker.learner->train_step(from + Steps(i), next_sequence_, result));
      }
    }
  }

  void take_contribution(Worker& worker) {
    if (worker.outer->shares_adam()) {
      worker.model->read_gradient(worker.contribution);
    } else {
      const std::vector<float>& anchor = worker.outer->anchor;
      worker.model->read_parameters(worker.contribution);
      for (std::size_t i = 0; i < anchor.size(); ++i) {
        worker.contribution[i] = anchor[i] - worker.contribution[i];
      }
    }
    if (arm_.attacker && &worker == &workers_.back()) {
      for (float& value : worker.contribution) value *= kAttack;
    }
    if (sparse()) worker.encoded = worker.feedback->encode(worker.contribution);
  }

  void lose_some() {
    if (arm_.dropped == 0) return;
    bool any = false;
    for (Worker& worker : workers_) {
      worker.lost = faults_.chance(arm_.dropped);
      any |= !worker.lost;
    }
    if (!any) workers_[faults_.below(workers_.size())].lost = false;
  }

  // False: a contribution is not finite.
  bool clip_factors(const outer_opt::Group& group, std::vector<double>& factors) {
    std::vector<double> norms;
    for (const std::size_t i : group) {
      if (workers_[i].lost) continue;
      norms.push_back(outer_opt::gradient_norm(workers_[i].contribution));
      if (!std::isfinite(norms.back())) return false;
    }
    factors = outer_opt::clip_factors(norms);
    return true;
  }

  bool plan_round(const outer_opt::Group& group, ReducePlan& plan) {
    std::vector<double> factors;
    if (!clip_factors(group, factors)) return false;
    std::size_t usable = 0;
    for (const std::size_t i : group) {
      const bool there = !workers_[i].lost;
      const double factor = there ? factors[usable++] : 1;
      plan.members.push_back(
          {ReplicaId(i + 1), "memory", there ? 1.0 : 0.0, arm_.sync.clip ? factor : 1.0, 0, 0});
    }
    // In an all-gather nobody has a part.
    if (plan.topology == Topology::kAllgather) return true;
    assign_parts(plan, std::vector<double>(group.size(), 1.0));
    return true;
  }

  ReducePlan empty_plan(const outer_opt::Fragment& fragment) const {
    ReducePlan plan;
    plan.key = {JobId(1), 0, round_};
    plan.attempt = 1;
    plan.topology = in_groups() ? Topology::kButterfly : arm_.sync.topology;
    plan.codec = arm_.sync.codec;
    plan.aggregator = arm_.sync.aggregator;
    plan.outer_lr = spec_.sync.outer.lr;
    plan.value_count = outer_opt::value_count(fragment);
    return plan;
  }

  // What the coordinator seals and the replicas do with it.
  bool synchronise(Steps to) {
    number_ = outer_opt::fragment_of(spec_, ++round_, to);
    fragment_ = number_ == 0 ? whole_ : fragments_[static_cast<std::size_t>(number_) - 1];
    overlap_ = outer_opt::overlap_at(spec_, to);
    lose_some();
    for (Worker& worker : workers_) take_contribution(worker);
    std::vector<outer_opt::Group> groups(1);
    for (std::size_t i = 0; i < workers_.size(); ++i) groups[0].push_back(i);
    if (in_groups()) groups = outer_opt::groups_of(spec_, workers_.size(), round_);
    for (const outer_opt::Group& group : groups) {
      if (!average(group)) return false;
    }
    for (Worker& worker : workers_) settle(worker, overlap_ == Steps(0));
    return true;
  }

  bool average(const outer_opt::Group& group) {
    ReducePlan plan = empty_plan(fragment_);
    if (!plan_round(group, plan)) return false;
    std::vector<std::vector<float>> packed(group.size());
    const std::vector<outer_opt::ReduceInput> inputs = inputs_of(group, plan, packed);
    const Reduced reduced = reduce_in_memory(plan, inputs);
    bytes_sent_ += reduced.bytes_sent * static_cast<double>(group.size()) /
                   static_cast<double>(workers_.size());
    take_step(group, reduced.average);
    for (std::size_t i = 0; i < group.size(); ++i) {
      Worker& worker = workers_[group[i]];
      if (!worker.eager) continue;
      worker.eager->committed(number_, spec_.sync.outer,
                              outer_opt::share_of(plan, plan.members[i].replica),
                              inputs[i].pseudo_gradient, reduced.average);
    }
    return true;
  }

  // `plan` becomes what all members go by: in groups without clip factors.
  std::vector<outer_opt::ReduceInput> inputs_of(const outer_opt::Group& group, ReducePlan& plan,
                                                std::vector<std::vector<float>>& packed) {
    const ReducePlan sealed = plan;
    std::vector<outer_opt::ReduceInput> inputs(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      Worker& worker = workers_[group[i]];
      plan = sealed;
      if (in_groups()) {
        group_input(spec_, ReplicaId(group[i] + 1), *worker.outer, worker.contribution, plan);
      }
      if (worker.lost) continue;
      inputs[i].encoded = worker.encoded;
      if (!sparse()) inputs[i].pseudo_gradient = pack(worker.contribution, packed[i]);
      if (worker.eager && overlap_ > Steps(0)) begin_eagerly(worker, inputs[i].pseudo_gradient);
    }
    return inputs;
  }

  void begin_eagerly(Worker& worker, std::span<const float> pseudo_gradient) {
    std::vector<float> local(worker.outer->anchor.size());
    worker.model->read_parameters(local);
    worker.eager->begin(number_, pseudo_gradient, worker.outer->momentum, worker.outer->anchor,
                        local);
    worker.model->write_parameters(local);
  }

  std::span<const float> pack(const std::vector<float>& values, std::vector<float>& packed) const {
    if (fragment_ == whole_) return values;
    packed.resize(static_cast<std::size_t>(outer_opt::value_count(fragment_)));
    outer_opt::gather(fragment_, values, packed);
    return packed;
  }

  void take_step(const outer_opt::Group& group, std::span<const float> average) {
    CommitRound commit;
    commit.key = {JobId(1), 0, round_};
    commit.outer_lr = spec_.sync.outer.lr;
    if (moves_with_anchor()) count_arrivals(commit);
    before_ = outer_[0].anchor;
    for (trainer::OuterState& state : outer_) {
      const bool all = outer_.size() == 1;
      const auto own = static_cast<std::size_t>(&state - outer_.data());
      if (!all && std::find(group.begin(), group.end(), own) == group.end()) continue;
      take_outer_step(spec_, commit, ranges_, fragment_, average, state);
    }
  }

  // An average of k of N workers stands for the share k / N (nesterov.h, delayed).
  void count_arrivals(CommitRound& commit) {
    coordinator::Arrivals arrivals{static_cast<std::int64_t>(workers_.size()), 0, 0};
    for (const Worker& worker : workers_) {
      if (worker.lost) continue;
      ++arrivals.contributions;
      arrivals.steps += worker.behind;
    }
    const coordinator::Arrived arrived =
        coordinator::count_arrivals(counted_to_, carried_, arrivals);
    const auto terms = coordinator::terms_of(spec_, arrived.share, counted_to_, arrived.to_step);
    commit.share = terms.share, commit.decay = terms.decay, commit.push = terms.push;
    counted_to_ = arrived.to_step;
    carried_ = arrived.carried_steps;
  }

  // After the outer step; `adopts`: the result becomes local now.
  void settle(Worker& worker, bool adopts) {
    if (worker.lost && moves_with_anchor()) return move_with_anchor(worker);
    worker.behind = 0;
    if (worker.lost && arm_.after_drop == AfterDrop::kKeepsOwn) return;
    if (adopts) adopt(worker, 0);
    if (worker.outer->shares_adam()) worker.model->clear_gradient();
    if (!sparse() || worker.lost) return;
    const Status kept = worker.feedback->commit(worker.contribution, worker.encoded);
    SHOAL_CHECK(kept.ok());
  }

  void adopt_late() {
    for (Worker& worker : workers_) {
      worker.eager ? adopt_eagerly(worker) : adopt(worker, arm_.sync.blend);
    }
  }

  void adopt_eagerly(Worker& worker) {
    std::vector<float> local(worker.outer->anchor.size());
    worker.model->read_parameters(local);
    worker.eager->adopt(worker.outer->anchor, local);
    worker.model->write_parameters(local);
  }

  void adopt(Worker& worker, double blend) {
    std::vector<float> local(worker.outer->anchor.size());
    worker.model->read_parameters(local);
    outer_opt::adopt(fragment_, blend, worker.outer->anchor, local);
    worker.model->write_parameters(local);
  }

  void move_with_anchor(Worker& worker) {
    std::vector<float> local(before_.size());
    worker.model->read_parameters(local);
    for (std::size_t i = 0; i < local.size(); ++i) {
      local[i] = worker.outer->anchor[i] + (local[i] - before_[i]);
    }
    worker.model->write_parameters(local);
  }

  // Of the shared parameters, which a worker that was dropped may not hold. In groups every worker
  // evaluates its own on its share of the batches.
  double evaluate() {
    EvalSum sum;
    const std::int64_t batches =
        setting_.eval_positions / (spec_.train.batch * spec_.model.context);
    const std::size_t models = outer_.size();
    for (std::size_t i = 0; i < models; ++i) evaluate_share(workers_[i], i, models, batches, sum);
    return sum.loss_sum / static_cast<double>(sum.tokens.count());
  }

  void evaluate_share(Worker& worker, std::size_t first, std::size_t of, std::int64_t batches,
                      EvalSum& sum) {
    std::vector<float> own(worker.outer->anchor.size());
    worker.model->read_parameters(own);
    if (synchronous()) worker.model->write_parameters(worker.outer->anchor);
    for (auto i = static_cast<std::int64_t>(first); i < batches;
         i += static_cast<std::int64_t>(of)) {
      must(worker.learner->evaluate_batch(i, batches, sum));
    }
    worker.model->write_parameters(own);
  }

  const Setting& setting_;
  const Arm& arm_;
  JobSpec spec_;
  UnitRange units_;
  std::vector<DecayRange> ranges_;
  std::vector<outer_opt::Fragment> fragments_;
  outer_opt::Fragment whole_, fragment_;  // all values; those of this round
  Prng faults_;
  std::vector<Worker> workers_;
  std::vector<trainer::OuterState> outer_;
  std::vector<float> before_;  // the anchor before the last outer step
  RoundNumber round_ = 0;
  std::int32_t number_ = 0;  // of the fragment of this round
  Steps overlap_;            // of this round
  Steps counted_to_;         // what is committed, as the coordinator counts late contributions
  std::int64_t carried_ = 0;
  std::int64_t next_sequence_ = 0;
  double bytes_sent_ = 0;
};

}  // namespace

Trajectory train(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed) {
  return Swarm(setting, arm, lr, seed).run();
}

}  // namespace shoal::bench
