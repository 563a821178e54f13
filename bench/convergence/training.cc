// See training.h.
#include "bench/convergence/training.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include "base/check.h"
#include "base/prng.h"
#include "bench/convergence/reduce.h"
#include "outer_opt/core/clip.h"
#include "outer_opt/core/shared_adamw.h"
#include "outer_opt/core/sparse2.h"
#include "trainer/learner.h"
#include "trainer/outer_state.h"

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
  std::vector<float> contribution;
  std::vector<std::byte> encoded;  // of sparse2
  std::unique_ptr<outer_opt::ErrorFeedback> feedback;
  bool lost = false;  // in this round
};

class Swarm {
 public:
  Swarm(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed)
      : setting_(setting),
        arm_(arm),
        spec_(spec_of(setting, arm, lr, seed)),
        ranges_(decay_ranges(parameter_layout(spec_.model, whole_model(spec_.model)))),
        faults_(mix_seed(seed, kFaultStream)) {
    auto data = Dataset::open(spec_);
    if (!data) throw std::runtime_error(to_string(data.error()));
    const std::shared_ptr<const Dataset> text = std::move(*data);
    for (std::int64_t i = 0; i < arm.workers; ++i) workers_.push_back(make_worker(text));
    state_ = zero_outer_state(arm.sync, workers_[0].model->value_count());
    workers_[0].model->read_parameters(state_.anchor);
  }

  Trajectory run() {
    const auto start = std::chrono::steady_clock::now();
    Trajectory out;
    for (Steps at; at < setting_.steps;) {
      const Steps to = std::min(at + round_length(), setting_.steps);
      train_round(at, to);
      const bool finite = synchronous() ? commit(++round_) : true;
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
  Steps round_length() const { return synchronous() ? arm_.sync.every : Steps(10); }
  bool sparse() const { return arm_.sync.codec == CodecKind::kSparse2; }

  Worker make_worker(const std::shared_ptr<const Dataset>& text) {
    Worker worker;
    must(StageModel::create(spec_, whole_model(spec_.model), {}, worker.model));
    worker.model->seed();
    worker.learner = std::make_unique<Learner>(*worker.model, text);
    const auto count = static_cast<std::size_t>(worker.model->value_count());
    worker.contribution.resize(count);
    if (sparse()) {
      worker.feedback = std::make_unique<outer_opt::ErrorFeedback>(count, arm_.sync.feedback);
    }
    return worker;
  }

  // Every worker has a run of sequences of its own in each round, as a lease is.
  void train_round(Steps from, Steps to) {
    const std::int64_t steps = (to - from).count();
    for (Worker& worker : workers_) {
      for (std::int64_t i = 0; i < steps; ++i, next_sequence_ += spec_.train.batch) {
        StepResult result;
        must(worker.learner->train_step(from + Steps(i), next_sequence_, result));
      }
    }
  }

  void take_contribution(Worker& worker) {
    if (state_.shares_adam()) {
      worker.model->read_gradient(worker.contribution);
    } else {
      worker.model->read_parameters(worker.contribution);
      for (std::size_t i = 0; i < state_.anchor.size(); ++i) {
        worker.contribution[i] = state_.anchor[i] - worker.contribution[i];
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
  bool plan_round(ReducePlan& plan) {
    std::vector<double> norms;
    for (Worker& worker : workers_) {
      take_contribution(worker);
      if (worker.lost) continue;
      norms.push_back(outer_opt::gradient_norm(worker.contribution));
      if (!std::isfinite(norms.back())) return false;
    }
    const auto factors = outer_opt::clip_factors(norms);
    std::size_t usable = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const bool there = !workers_[i].lost;
      const double factor = there ? factors[usable++] : 1;
      plan.members.push_back(
          {ReplicaId(i + 1), "memory", there ? 1.0 : 0.0, arm_.sync.clip ? factor : 1.0, 0, 0});
    }
    return true;
  }

  // What the coordinator seals and the replicas do with it.
  bool commit(RoundNumber round) {
    ReducePlan plan;
    plan.key = {JobId(1), 0, round};
    plan.attempt = 1;
    plan.topology = arm_.sync.topology;
    plan.codec = arm_.sync.codec;
    plan.value_count = static_cast<std::int64_t>(state_.anchor.size());
    lose_some();
    if (!plan_round(plan)) return false;
    // In an all-gather nobody has a part.
    if (plan.topology != Topology::kAllgather) {
      assign_parts(plan, std::vector<double>(workers_.size(), 1.0));
    }
    std::vector<outer_opt::ReduceInput> inputs(workers_.size());
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].lost) continue;
      inputs[i].encoded = workers_[i].encoded;
      if (!sparse()) inputs[i].pseudo_gradient = workers_[i].contribution;
    }
    const Reduced reduced = reduce_in_memory(plan, inputs);
    bytes_sent_ += reduced.bytes_sent;
    CommitRound commit;
    commit.key = plan.key;
    commit.outer_lr = spec_.sync.outer.lr;
    take_outer_step(spec_, commit, ranges_, {{0, static_cast<std::int64_t>(state_.anchor.size())}},
                    reduced.average, state_);
    for (Worker& worker : workers_) adopt(worker);
    return true;
  }

  void adopt(Worker& worker) {
    if (worker.lost && arm_.keeps_progress) return;
    worker.model->write_parameters(state_.anchor);
    if (state_.shares_adam()) worker.model->clear_gradient();
    if (!sparse() || worker.lost) return;
    const Status kept = worker.feedback->commit(worker.contribution, worker.encoded);
    SHOAL_CHECK(kept.ok());
  }

  // Of the shared parameters, which a worker that was dropped may not hold.
  double evaluate() {
    EvalSum sum;
    StageModel& model = *workers_[0].model;
    std::vector<float> own(state_.anchor.size());
    model.read_parameters(own);
    if (synchronous()) model.write_parameters(state_.anchor);
    const std::int64_t batches =
        setting_.eval_positions / (spec_.train.batch * spec_.model.context);
    for (std::int64_t i = 0; i < batches; ++i) {
      must(workers_[0].learner->evaluate_batch(i, batches, sum));
    }
    model.write_parameters(own);
    return sum.loss_sum / static_cast<double>(sum.tokens.count());
  }

  const Setting& setting_;
  const Arm& arm_;
  JobSpec spec_;
  std::vector<DecayRange> ranges_;
  Prng faults_;
  std::vector<Worker> workers_;
  trainer::OuterState state_;
  RoundNumber round_ = 0;
  std::int64_t next_sequence_ = 0;
  double bytes_sent_ = 0;
};

}  // namespace

Trajectory train(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed) {
  return Swarm(setting, arm, lr, seed).run();
}

}  // namespace shoal::bench
