// Random clusters as they may join a job, and the best plan that simulated annealing over cuts and
// assignments finds for them: for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/prng.h"
#include "swarm/core/plan/stage_plan.h"

namespace shoal::swarm {

inline constexpr double kGiB = 1024. * 1024 * 1024;

// 0.2 to 30 billion parameters.
inline CostModel random_model(Prng& prng) {
  JobSpec spec;
  const std::int64_t hidden = std::int64_t{512} << prng.below(4);
  spec.model = {.layers = static_cast<std::int64_t>(4 + prng.below(25)),
                .hidden = hidden,
                .heads = hidden / 64,
                .context = 1024,
                .vocab = 32000};
  spec.train.microbatch = 1, spec.train.batch = static_cast<std::int64_t>(4 << prng.below(4));
  return {spec, {}};
}

inline double log_uniform(Prng& prng, double low, double high) {
  return low * std::pow(high / low, prng.unit());
}

// 2 to 12 agents: speeds of 1 to 16 times 5 TFLOP/s, lines of 10 Mbit/s to 10 Gbit/s, memory of 8
// to 80 GB; some share a host.
inline PlanRequest random_request(Prng& prng) {
  PlanRequest request;
  const auto agents = static_cast<std::int32_t>(2 + prng.below(11));
  for (std::int32_t i = 0; i < agents; ++i) {
    request.agents.push_back({AgentId(static_cast<std::uint64_t>(i) + 1),
                              5e12 * log_uniform(prng, 1, 16),
                              Bytes(static_cast<std::int64_t>(kGiB * log_uniform(prng, 8, 80)))});
    request.round_trip_s.push_back(log_uniform(prng, 1e-3, 0.1));
    if (i > 0 && prng.chance(0.25)) {
      request.lines.back().agents.push_back(i);
    } else {
      request.lines.push_back({{i}, log_uniform(prng, 10e6, 10e9) / 8});
    }
  }
  request.averaging = {.bytes_per_value = 1, .steps = 200};
  request.microbatches_per_router = 8;
  request.assignment.several_stages_per_agent = false;
  return request;
}

// Walks through cuts and assignments of one number of stages.
class Annealing {
 public:
  Annealing(const CostModel& model, const PlanRequest& request, std::int32_t stages, Prng& prng)
      : model_(model),
        request_(request),
        forecaster_(model, request),
        stages_(stages),
        prng_(prng) {}

  // Tokens/s; 0: none was found that fits. One stage has all agents that can hold it, which is no
  // search.
  double run(int steps) {
    start();
    if (stages_ == 1) return with_all();
    double now = score(), best = now;
    for (int step = 0; step < steps; ++step) {
      const auto before_ends = ends_;
      const auto before_stage_of = stage_of_;
      change();
      const double next = score();
      const double heat = 0.2 * (1 - static_cast<double>(step) / steps) + 1e-4;
      const bool accepted =
          next >= now || (next > 0 && prng_.unit() < std::exp((next / now - 1) / heat));
      if (accepted) {
        now = next, best = std::max(best, now);
      } else {
        ends_ = before_ends, stage_of_ = before_stage_of;
      }
    }
    return best;
  }

 private:
  // The blocks after which a stage ends are random, and so is every agent's stage.
  void start() {
    ends_.clear();
    for (std::int32_t s = 1; s <= stages_; ++s) ends_.push_back(model_.blocks() * s / stages_);
    stage_of_.assign(request_.agents.size(), 0);
    for (std::int32_t& stage : stage_of_) {
      stage = static_cast<std::int32_t>(prng_.below(static_cast<std::uint64_t>(stages_) + 1)) - 1;
    }
  }

  double with_all() {
    for (std::size_t a = 0; a < stage_of_.size(); ++a) {
      stage_of_[a] = model_.memory(model_.whole()) <= request_.agents[a].memory ? 0 : -1;
    }
    return score();
  }

  void change() {
    const auto any_agent = [&] { return prng_.below(stage_of_.size()); };
    const std::uint64_t kind = prng_.below(3);
    if (kind == 0) {
      stage_of_[any_agent()] =
          static_cast<std::int32_t>(prng_.below(static_cast<std::uint64_t>(stages_) + 1)) - 1;
    } else if (kind == 1) {
      std::swap(stage_of_[any_agent()], stage_of_[any_agent()]);
    } else {
      std::int32_t& end = ends_[prng_.below(static_cast<std::uint64_t>(stages_) - 1)];
      end += prng_.chance(0.5) ? 1 : -1;
    }
  }

  // A number below 1 counts the stages without a replica, so that there is a way out.
  double score() const {
    std::vector<UnitRange> cut;
    std::int32_t first = 0;
    for (const std::int32_t end : ends_) {
      if (end <= first) return 0;
      cut.push_back(
          {first == 0 ? 0 : first + 1, end == model_.blocks() ? model_.units() : end + 1});
      first = end;
    }
    std::vector<Placement> placements;
    std::vector<std::int32_t> count(cut.size(), 0);
    for (std::int32_t s = 0; s < stages_; ++s) {
      for (std::size_t a = 0; a < stage_of_.size(); ++a) {
        if (stage_of_[a] != s) continue;
        if (model_.memory(cut[s]) > request_.agents[a].memory) return 0;
        placements.push_back({static_cast<std::int32_t>(a), s, 1});
        ++count[s];
      }
    }
    const auto least = std::max(1, request_.assignment.min_replicas);
    const auto filled = std::ranges::count_if(count, [&](auto n) { return n >= least; });
    if (filled < stages_) return 1e-3 * static_cast<double>(filled + 1) / (stages_ + 1);
    return forecaster_.of(cut, placements).tokens_per_s;
  }

  const CostModel& model_;
  const PlanRequest& request_;
  Forecaster forecaster_;
  const std::int32_t stages_;
  Prng& prng_;
  std::vector<std::int32_t> ends_;      // by stage: blocks before its end
  std::vector<std::int32_t> stage_of_;  // by agent; -1: none
};

inline double annealed_best(const CostModel& model, const PlanRequest& request, Prng& prng,
                            int steps) {
  double best = 0;
  const auto most =
      std::min<std::int32_t>(model.blocks(), static_cast<std::int32_t>(request.agents.size()));
  for (std::int32_t stages = 1; stages <= most; ++stages) {
    best = std::max(best, Annealing(model, request, stages, prng).run(steps));
  }
  return best < 1 ? 0 : best;
}

}  // namespace shoal::swarm
