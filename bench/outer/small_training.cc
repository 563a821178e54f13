// See small_training.h.
#include "bench/outer/small_training.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>

#include "base/check.h"
#include "job/job_rules.h"
#include "outer_opt/core/round/clip.h"
#include "outer_opt/core/step/nesterov.h"
#include "replica/core/outer_loop.h"

namespace shoal::bench {
namespace {

constexpr std::uint64_t kDataStream = 0xda7a, kDropStream = 0xd509;
constexpr std::int64_t kWarmup = 50;
constexpr double kFloor = 0.1;  // of the rate, where the cosine ends

// A worker's parameters, as its outer loop sees them.
class SmallParameters final : public replica::LocalParameters {
 public:
  explicit SmallParameters(std::vector<float> initial) : values(std::move(initial)) {}
  std::int64_t value_count() const override { return static_cast<std::int64_t>(values.size()); }
  void read_parameters(std::span<float> out) const override {
    std::ranges::copy(values, out.begin());
  }
  void write_parameters(std::span<const float> in) override { values.assign(in.begin(), in.end()); }
  void read_gradient(std::span<float>) const override { SHOAL_CHECK(false, "no worker keeps one"); }
  void clear_gradient() override {}

  std::vector<float> values;
};

struct Worker {
  std::unique_ptr<SmallParameters> parameters;
  std::unique_ptr<replica::OuterLoop> loop;
  std::vector<float> m, v;
  Prng data;
  std::int64_t steps = 0;
  bool lost = false;
};

JobSpec spec_of(const SmallArm& arm) {
  JobSpec spec = default_spec(arm.averaging == Averaging::kAsync ? SyncAlgorithm::kAsync
                                                                 : SyncAlgorithm::kDiloco);
  spec.sync.outer = arm.outer;
  spec.sync.codec = CodecKind::kFp32;
  return spec;
}

RoundKey key_of(RoundNumber round) { return {JobId(1), 0, round}; }

class SmallTraining {
 public:
  SmallTraining(SmallModel& model, const SmallArm& arm, const SmallLength& length, double lr,
                std::uint64_t seed)
      : model_(model),
        arm_(arm),
        length_(length),
        lr_(lr),
        drops_(mix_seed(seed, kDropStream)),
        average_(SmallModel::initial(seed).size()),
        gradient_(average_.size()) {
    for (std::int64_t i = 0; i < length.workers; ++i) workers_.push_back(make_worker(seed, i));
    if (arm.liars) verified_.emplace(*arm.liars, workers_.size(), seed);
  }

  Named named() const { return verified_ ? verified_->named() : Named(); }

  double run() {
    for (std::int64_t round = 0; round < length_.rounds; ++round) {
      if (arm_.averaging == Averaging::kGradients) {
        for (std::int64_t i = 0; i < length_.every; ++i) step_together();
      } else {
        for (Worker& worker : workers_) train_alone(worker);
        average_round();
      }
    }
    const bool together = arm_.averaging == Averaging::kGradients;
    const Worker& first = workers_[0];
    return model_.held_out_loss(together ? first.parameters->values : first.loop->state().anchor);
  }

 private:
  Worker make_worker(std::uint64_t seed, std::int64_t index) const {
    const auto own = static_cast<std::uint64_t>(index);
    const JobSpec spec = spec_of(arm_);
    const auto values = static_cast<std::int64_t>(average_.size());
    replica::OuterLoopSetup setup{ReplicaId(own + 1),
                                  spec,
                                  {{{0, values}}},
                                  replica::make_outer_algorithm(spec, {}),
                                  std::make_unique<replica::HostVectors>(values)};
    auto state = std::make_shared<replica::OuterState>(setup.algorithm->zero_state(values));
    state->anchor = SmallModel::initial(seed);
    Worker worker{.m = std::vector<float>(average_.size()),
                  .v = std::vector<float>(average_.size()),
                  .data = Prng(mix_seed(seed, kDataStream + own))};
    worker.parameters = std::make_unique<SmallParameters>(state->anchor);
    worker.loop = std::make_unique<replica::OuterLoop>(std::move(setup), *worker.parameters,
                                                       std::move(state), key_of(0));
    return worker;
  }

  double rate(std::int64_t step) const {
    const std::int64_t all = length_.rounds * length_.every, warmup = std::min(kWarmup, all / 10);
    if (step < warmup) return lr_ * static_cast<double>(step + 1) / static_cast<double>(warmup);
    const double done = static_cast<double>(step - warmup) /
                        static_cast<double>(std::max<std::int64_t>(1, all - warmup));
    return lr_ * (kFloor + (1 - kFloor) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
  }

  // AdamW on matrices and biases alike, the gradient scaled to a norm of at most 1.
  void take_step(Worker& worker) {
    const double norm =
        std::sqrt(std::inner_product(gradient_.begin(), gradient_.end(), gradient_.begin(), 0.0));
    const auto scale = static_cast<float>(norm > 1 ? 1 / norm : 1);
    const auto lr = static_cast<float>(rate(worker.steps++));
    const auto taken = static_cast<double>(worker.steps);
    const auto first = static_cast<float>(1 / (1 - std::pow(0.9, taken)));
    const auto second = static_cast<float>(1 / (1 - std::pow(0.99, taken)));
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      const float g = scale * gradient_[i];
      worker.m[i] = 0.9f * worker.m[i] + 0.1f * g;
      worker.v[i] = 0.99f * worker.v[i] + 0.01f * g * g;
      worker.parameters->values[i] -=
          lr * (worker.m[i] * first / (std::sqrt(worker.v[i] * second) + 1e-8f));
    }
  }

  void train_alone(Worker& worker) {
    for (std::int64_t i = 0; i < length_.every; ++i) {
      model_.loss(worker.parameters->values, model_.draw(worker.data), gradient_);
      take_step(worker);
    }
  }

  // All data, one set of parameters: that of the first worker.
  void step_together() {
    std::fill(average_.begin(), average_.end(), 0.0f);
    const float share = 1 / static_cast<float>(workers_.size());
    for (Worker& worker : workers_) {
      model_.loss(workers_[0].parameters->values, model_.draw(worker.data), gradient_);
      for (std::size_t i = 0; i < average_.size(); ++i) average_[i] += share * gradient_[i];
    }
    gradient_ = average_;
    take_step(workers_[0]);
  }

  void lose_some() {
    if (arm_.dropped == 0) return;
    for (Worker& worker : workers_) worker.lost = drops_.chance(arm_.dropped);
    const bool none = std::ranges::all_of(workers_, [](const Worker& w) { return w.lost; });
    if (none) workers_[drops_.below(workers_.size())].lost = false;
  }

  // How many workers it is of.
  std::size_t average_those_there() {
    std::vector<double> norms;
    std::vector<const Worker*> there;
    for (Worker& worker : workers_) {
      RoundReport report;
      worker.loop->boundary(report, false);
      if (worker.lost) continue;
      norms.push_back(report.norm);
      there.push_back(&worker);
    }
    if (verified_) {
      std::vector<std::span<const float>> all;
      for (const Worker& worker : workers_) all.push_back(worker.loop->contribution());
      average_ = verified_->average(workers_[0].loop->held().round + 1, all);
      return there.size();
    }
    const std::vector<double> factors = outer_opt::clip_factors(norms);
    std::fill(average_.begin(), average_.end(), 0.0f);
    for (std::size_t k = 0; k < there.size(); ++k) {
      const auto weight = static_cast<float>(factors[k] / static_cast<double>(there.size()));
      const std::span<const float> own = there[k]->loop->contribution();
      for (std::size_t i = 0; i < average_.size(); ++i) average_[i] += weight * own[i];
    }
    return there.size();
  }

  void average_round() {
    lose_some();
    const double share =
        static_cast<double>(average_those_there()) / static_cast<double>(workers_.size());
    CommitRound commit;
    commit.key = key_of(workers_[0].loop->held().round + 1);
    commit.outer_lr = arm_.outer.lr;
    if (arm_.averaging == Averaging::kAsync) {
      const auto terms = outer_opt::delayed_terms(share, arm_.outer.momentum, share);
      commit.share = terms.share, commit.decay = terms.decay, commit.push = terms.push;
    }
    for (Worker& worker : workers_) settle(worker, commit);
  }

  void settle(Worker& worker, CommitRound commit) {
    ReducePlan plan;
    plan.key = commit.key;
    plan.value_count = static_cast<std::int64_t>(average_.size());
    worker.loop->plan(plan, !worker.lost);
    std::ranges::copy(average_, worker.loop->average(plan).begin());
    worker.loop->reduced();
    commit.keeps = worker.lost && arm_.lost == Lost::kMovesWithAnchor;
    const std::vector<float> own = worker.parameters->values;
    worker.loop->commit(commit, false);
    if (worker.lost && arm_.lost == Lost::kKeepsOwn) worker.parameters->values = own;
  }

  SmallModel& model_;
  const SmallArm& arm_;
  const SmallLength& length_;
  const double lr_;
  Prng drops_;
  std::vector<float> average_, gradient_;
  std::vector<Worker> workers_;
  std::optional<VerifiedRounds> verified_;
};

}  // namespace

double train_small(SmallModel& model, const SmallArm& arm, const SmallLength& length, double lr,
                   std::uint64_t seed, Named* named) {
  SmallTraining training(model, arm, length, lr, seed);
  const double loss = training.run();
  if (named != nullptr) *named = training.named();
  return loss;
}

}  // namespace shoal::bench
