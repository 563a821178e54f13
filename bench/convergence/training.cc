// See training.h.
#include "bench/convergence/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/prng.h"
#include "bench/convergence/stored_order.h"
#include "bench/reduce_in_memory.h"
#include "coordinator/core/decisions/arrivals.h"
#include "job/job_spec.h"
#include "outer_opt/core/round/clip.h"
#include "outer_opt/core/round/groups.h"
#include "replica/core/outer_loop.h"
#include "trainer/model/learner.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::bench {
namespace {

using namespace trainer;

constexpr float kAttack = -10;
constexpr std::uint64_t kFaultStream = 0xfa17;

JobSpec spec_of(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed) {
  JobSpec spec;
  spec.name = "convergence";
  spec.model = setting.model;
  spec.data.train = std::filesystem::absolute(setting.text).string();
  spec.train.steps = setting.steps;
  spec.train.batch = setting.batch * arm.batch_factor;
  spec.train.optimizer = arm.optimizer;
  spec.train.lr = lr;
  spec.train.min_lr = lr / 10;
  spec.train.warmup = Steps(std::min<std::int64_t>(50, setting.steps.count() / 10));
  spec.train.seed = seed;
  spec.sync = arm.sync;
  spec.sync = effective_sync(spec);
  return with_derived_fields(spec);
}

void must(const MaybeFailure& failure) {
  if (failure) throw std::runtime_error(failure->detail);
}

struct Worker {
  std::unique_ptr<StageModel> model;
  std::unique_ptr<Learner> learner;
  std::unique_ptr<replica::OuterLoop> loop;
  bool lost = false;          // in this round
  bool adopts_later = false;  // the result of this round
  std::int64_t behind = 0;    // inner steps that no average has yet
  std::int64_t drawn = 0;     // sequences, in the order of datasets
};

class Swarm {
 public:
  Swarm(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed)
      : setting_(setting),
        arm_(arm),
        spec_(spec_of(setting, arm, lr, seed)),
        units_(whole_model(spec_.model)),
        faults_(mix_seed(seed, kFaultStream)) {
    if (arm.stored_order) stored_ = open_in_stored_order(spec_);
    const std::shared_ptr<const Dataset> text = arm.stored_order ? stored_.data : open_file();
    for (std::int64_t i = 0; i < arm.workers; ++i) workers_.push_back(make_worker(text, i));
  }

  Trajectory run() {
    const auto start = std::chrono::steady_clock::now();
    Trajectory out;
    for (Steps at; at < setting_.steps;) {
      const Steps to = std::min(at + round_length(), setting_.steps);
      train_round(at, to);
      const bool finite = synchronous() ? synchronize(to) : true;
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
  bool in_groups() const { return outer_opt::averages_in_groups(spec_.sync); }
  bool moves_with_anchor() const { return arm_.after_drop == AfterDrop::kMovesWithAnchor; }
  Steps round_length() const {
    return synchronous() ? outer_opt::round_length(spec_.sync) : Steps(10);
  }

  std::shared_ptr<const Dataset> open_file() const {
    auto data = Dataset::open(spec_, data::DataRoots::whole_host());
    if (!data) throw std::runtime_error(to_string(data.error()));
    return std::move(*data);
  }

  Worker make_worker(const std::shared_ptr<const Dataset>& text, std::int64_t index) {
    Worker worker;
    must(StageModel::create(spec_, units_, {}, worker.model));
    worker.model->seed();
    worker.learner = std::make_unique<Learner>(*worker.model, text);
    const std::int64_t values = worker.model->value_count();
    replica::OuterLoopSetup setup{
        id_of(index), spec_,
        outer_opt::cut_fragments(stage_sizes(spec_.model, units_), arm_.sync.fragments),
        replica::make_outer_algorithm(spec_, decay_ranges(parameter_layout(spec_.model, units_))),
        std::make_unique<replica::HostVectors>(values)};
    auto state = std::make_shared<replica::OuterState>(setup.algorithm->zero_state(values));
    worker.model->read_parameters(state->anchor);
    worker.loop = std::make_unique<replica::OuterLoop>(std::move(setup), *worker.model,
                                                       std::move(state), key_of(0));
    return worker;
  }

  static ReplicaId id_of(std::int64_t worker) {
    return ReplicaId(static_cast<std::uint64_t>(worker) + 1);
  }
  static RoundKey key_of(RoundNumber round) { return {JobId(1), 0, round}; }

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
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      Worker& worker = workers_[w];
      worker.behind += steps;
      for (std::int64_t i = 0; i < steps; ++i) {
        StepResult result;
        must(worker.learner->train_step(from + Steps(i), next_sequence(w), result));
      }
    }
  }

  std::int64_t next_sequence(std::size_t worker) {
    std::int64_t& drawn = arm_.stored_order ? workers_[worker].drawn : next_sequence_;
    const std::int64_t n = std::exchange(drawn, drawn + spec_.train.batch);
    if (!arm_.stored_order) return n;
    return sequence_of(stored_, static_cast<std::int64_t>(worker), std::ssize(workers_), n);
  }

  void take_contribution(Worker& worker) {
    OpenRound open;
    open.key = key_of(round_);
    open.fragment = number_;
    worker.loop->open(open);
    RoundReport report;
    worker.loop->boundary(report, overlap_ > Steps(0));
    if (!attacks(worker)) return;
    attack_ = worker.loop->contribution_source().copy();
    for (float& value : attack_) value *= kAttack;
  }

  bool attacks(const Worker& worker) const { return arm_.attacker && &worker == &workers_.back(); }

  outer_opt::VectorSource given_by(const Worker& worker) const {
    return attacks(worker) ? attack_ : worker.loop->contribution_source();
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
      const auto statistics = outer_opt::statistics_of(given_by(workers_[i]).copy());
      if (statistics.nonfinite > 0) return false;
      norms.push_back(statistics.norm);
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
      plan.members.push_back({id_of(static_cast<std::int64_t>(i)), "memory", there ? 1.0 : 0.0,
                              arm_.sync.clip ? factor : 1.0, 0, 0});
    }
    // In an all-gather nobody has a part.
    if (plan.topology == Topology::kAllgather) return true;
    assign_parts(plan, std::vector<double>(group.size(), 1.0));
    return true;
  }

  ReducePlan empty_plan() const {
    ReducePlan plan;
    plan.key = key_of(round_);
    plan.attempt = 1;
    plan.fragment = number_;
    plan.topology = in_groups() ? Topology::kButterfly : arm_.sync.topology;
    plan.codec = arm_.sync.codec;
    plan.aggregator = arm_.sync.aggregator;
    plan.outer_lr = spec_.sync.outer.lr;
    plan.value_count = outer_opt::value_count(workers_[0].loop->values_of(number_));
    return plan;
  }

  // What the coordinator freezes and the replicas do with it.
  bool synchronize(Steps to) {
    number_ = outer_opt::fragment_of(spec_, ++round_, to);
    overlap_ = outer_opt::overlap_at(spec_, to);
    lose_some();
    for (Worker& worker : workers_) take_contribution(worker);
    std::vector<outer_opt::Group> groups(1);
    for (std::size_t i = 0; i < workers_.size(); ++i) groups[0].push_back(i);
    if (in_groups()) groups = outer_opt::groups_of(spec_, workers_.size(), round_);
    for (const outer_opt::Group& group : groups) {
      if (!average(group)) return false;
    }
    CommitRound commit;
    commit.key = key_of(round_);
    commit.outer_lr = spec_.sync.outer.lr;
    if (moves_with_anchor()) count_arrivals(commit);
    for (Worker& worker : workers_) settle(worker, commit);
    return true;
  }

  bool average(const outer_opt::Group& group) {
    ReducePlan plan = empty_plan();
    if (!plan_round(group, plan)) return false;
    std::vector<outer_opt::ReduceInput> inputs;
    for (const std::size_t i : group) {
      Worker& worker = workers_[i];
      worker.loop->plan(plan, !worker.lost);
      inputs.push_back(worker.loop->input(plan, !worker.lost));
      if (attacks(worker) && !worker.lost) inputs.back().pseudo_gradient = given_by(worker);
    }
    const Reduced reduced = reduce_in_memory(plan, inputs);
    bytes_sent_ += reduced.bytes_sent * static_cast<double>(group.size()) /
                   static_cast<double>(workers_.size());
    for (const std::size_t i : group) {
      std::ranges::copy(reduced.average, workers_[i].loop->average(plan).begin());
      workers_[i].loop->reduced();
    }
    return true;
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

  // The product drops what a lost worker trained, or moves it with the anchor; the DiLoCo paper
  // keeps it.
  void settle(Worker& worker, CommitRound commit) {
    commit.keeps = worker.lost && moves_with_anchor();
    const bool keeps_own = worker.lost && arm_.after_drop == AfterDrop::kKeepsOwn;
    std::vector<float> own(keeps_own ? worker.loop->state().anchor.size() : 0);
    if (keeps_own) worker.model->read_parameters(own);
    worker.adopts_later = worker.loop->commit(commit, overlap_ > Steps(0)).adopts_later;
    if (!commit.keeps) worker.behind = 0;
    if (keeps_own) worker.model->write_parameters(own);
  }

  void adopt_late() {
    for (Worker& worker : workers_) {
      if (worker.adopts_later) worker.loop->adopt();
    }
  }

  // The loss of the shared parameters, which a dropped worker may not hold. In groups every worker
  // evaluates its own parameters on its share of the batches.
  double evaluate() {
    EvalSum sum;
    const std::int64_t batches =
        setting_.eval_positions / (spec_.train.batch * spec_.model.context);
    const std::size_t models = in_groups() ? workers_.size() : 1;
    for (std::size_t i = 0; i < models; ++i) evaluate_share(workers_[i], i, models, batches, sum);
    return sum.loss_sum / static_cast<double>(sum.tokens.count());
  }

  void evaluate_share(Worker& worker, std::size_t first, std::size_t of, std::int64_t batches,
                      EvalSum& sum) {
    std::vector<float> own(worker.loop->state().anchor.size());
    worker.model->read_parameters(own);
    if (synchronous()) worker.model->write_parameters(worker.loop->state().anchor);
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
  Prng faults_;
  std::vector<Worker> workers_;
  RoundNumber round_ = 0;
  std::int32_t number_ = 0;  // of the fragment of this round
  Steps overlap_;            // of this round
  Steps counted_to_;         // what is committed, as the coordinator counts late contributions
  std::int64_t carried_ = 0;
  std::int64_t next_sequence_ = 0;
  std::vector<float> attack_;  // of this round, in place of the attacker's contribution
  StoredOrder stored_;         // of an arm that reads in that order
  double bytes_sent_ = 0;
};

}  // namespace

Trajectory train(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed) {
  return Swarm(setting, arm, lr, seed).run();
}

}  // namespace shoal::bench
