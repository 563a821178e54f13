// See small_training.h.
#include "bench/outer/small_training.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "outer_opt/core/round/clip.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::bench {
namespace {

constexpr std::uint64_t kDataStream = 0xda7a, kDropStream = 0xd509;
constexpr std::int64_t kWarmup = 50;
constexpr double kFloor = 0.1;  // of the rate, where the cosine ends

struct Worker {
  std::vector<float> parameters, m, v;
  Prng data;
  std::int64_t steps = 0;
  bool lost = false;
};

class SmallTraining {
 public:
  SmallTraining(SmallModel& model, const SmallArm& arm, const SmallLength& length, double lr,
                std::uint64_t seed)
      : model_(model),
        arm_(arm),
        length_(length),
        lr_(lr),
        drops_(mix_seed(seed, kDropStream)),
        anchor_(SmallModel::initial(seed)),
        momentum_(anchor_.size(), 0.0f),
        average_(anchor_.size()),
        gradient_(anchor_.size()) {
    const std::vector<float> zero(anchor_.size(), 0.0f);
    for (std::int64_t i = 0; i < length.workers; ++i) {
      const std::uint64_t own = kDataStream + static_cast<std::uint64_t>(i);
      workers_.push_back({anchor_, zero, zero, Prng(mix_seed(seed, own))});
    }
  }

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
    return model_.held_out_loss(together ? workers_[0].parameters : anchor_);
  }

 private:
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
      worker.parameters[i] -=
          lr * (worker.m[i] * first / (std::sqrt(worker.v[i] * second) + 1e-8f));
    }
  }

  void train_alone(Worker& worker) {
    for (std::int64_t i = 0; i < length_.every; ++i) {
      model_.loss(worker.parameters, model_.draw(worker.data), gradient_);
      take_step(worker);
    }
  }

  // All data, one set of parameters: that of the first worker.
  void step_together() {
    std::fill(average_.begin(), average_.end(), 0.0f);
    const float share = 1 / static_cast<float>(workers_.size());
    for (Worker& worker : workers_) {
      model_.loss(workers_[0].parameters, model_.draw(worker.data), gradient_);
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
    for (const Worker& worker : workers_) {
      if (worker.lost) continue;
      double squares = 0;
      for (std::size_t i = 0; i < anchor_.size(); ++i) {
        const double value = anchor_[i] - worker.parameters[i];
        squares += value * value;
      }
      norms.push_back(std::sqrt(squares));
      there.push_back(&worker);
    }
    const std::vector<double> factors = outer_opt::clip_factors(norms);
    std::fill(average_.begin(), average_.end(), 0.0f);
    for (std::size_t k = 0; k < there.size(); ++k) {
      const auto weight = static_cast<float>(factors[k] / static_cast<double>(there.size()));
      for (std::size_t i = 0; i < anchor_.size(); ++i) {
        average_[i] += weight * (anchor_[i] - there[k]->parameters[i]);
      }
    }
    return there.size();
  }

  void average_round() {
    lose_some();
    const double share =
        static_cast<double>(average_those_there()) / static_cast<double>(workers_.size());
    const std::vector<float> before = anchor_;
    if (arm_.averaging == Averaging::kAsync) {
      const auto terms = outer_opt::delayed_terms(share, arm_.outer.momentum, share);
      outer_opt::delayed_nesterov_step(arm_.outer, terms, average_, momentum_, anchor_);
    } else {
      outer_opt::nesterov_step(arm_.outer, average_, momentum_, anchor_);
    }
    for (Worker& worker : workers_) settle(worker, before);
  }

  void settle(Worker& worker, const std::vector<float>& before) {
    if (!worker.lost || arm_.lost == Lost::kStartsOver) {
      worker.parameters = anchor_;
    } else if (arm_.lost == Lost::kMovesWithAnchor) {
      for (std::size_t i = 0; i < anchor_.size(); ++i) {
        worker.parameters[i] += anchor_[i] - before[i];
      }
    }
  }

  SmallModel& model_;
  const SmallArm& arm_;
  const SmallLength& length_;
  const double lr_;
  Prng drops_;
  std::vector<float> anchor_, momentum_, average_, gradient_;
  std::vector<Worker> workers_;
};

}  // namespace

double train_small(SmallModel& model, const SmallArm& arm, const SmallLength& length, double lr,
                   std::uint64_t seed) {
  return SmallTraining(model, arm, length, lr, seed).run();
}

}  // namespace shoal::bench
