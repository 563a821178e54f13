// The fluid model: between two membership events the pipeline runs at the speed of its weakest
// stage. An agent in transit counts for nothing until its download is done.
#include <algorithm>
#include <cmath>
#include <queue>

#include "base/check.h"
#include "base/prng.h"
#include "swarm/core/plan/rebalance.h"
#include "tests/sim/swarm/options.h"

namespace shoal::sim::swarm {
namespace {

using ::shoal::swarm::RebalanceReplica;
using ::shoal::swarm::RebalanceView;

enum class Kind { kDeath, kReturn, kReady, kBalance };
struct Change {
  double at_s;
  Kind kind;
  std::int32_t agent, generation;
  bool operator<(const Change& other) const { return at_s > other.at_s; }
};

class Fluid {
 public:
  explicit Fluid(const FluidOptions& options)
      : options_(options),
        prng_(mix_seed(options.seed, 0xf1)),
        agents_(options.agents),
        serving_(options.stages, 0),
        rebalancer_(options.rebalance) {
    for (std::int32_t i = 0; i < options.agents; ++i) {
      const auto row = static_cast<std::size_t>(i / options.stages);
      agents_[i] = {i % options.stages, 0, options.speeds[row % options.speeds.size()], true, true};
      serving_[agents_[i].stage] += agents_[i].speed;
      alive_ += agents_[i].speed;
      changes_.push({life(), Kind::kDeath, i, 0});
    }
    if (options.every.ns > 0) changes_.push({options.every.seconds(), Kind::kBalance, 0, 0});
  }

  FluidMeasured run() {
    const double end = options_.hours * 3600;
    while (!changes_.empty() && changes_.top().at_s < end) {
      const Change change = changes_.top();
      changes_.pop();
      advance(change.at_s);
      ++measured_.events;
      apply(change);
    }
    advance(end);
    measured_.of_optimum = done_ / optimum_;
    measured_.last_hour = late_done_ / late_optimum_;
    measured_.of_loaded = done_ / loaded_optimum_;
    measured_.of_whole = done_ / whole_optimum_;
    return measured_;
  }

 private:
  struct Agent {
    std::int32_t stage, generation;
    double speed;
    bool alive, serving;
    bool joining = false;  // its first download is under way
  };

  double life() { return prng_.exponential(options_.life_h * 3600); }

  void advance(double to) {
    const double slowest = *std::min_element(serving_.begin(), serving_.end());
    const double best = alive_ / options_.stages;
    const double late = std::max(0.0, to - std::max(now_, (options_.hours - 1) * 3600));
    done_ += slowest * (to - now_);
    optimum_ += best * (to - now_);
    const double loaded = (alive_ - loading_) / options_.stages;
    loaded_optimum_ += loaded * (to - now_);
    whole_optimum_ += std::floor(loaded + 1e-9) * (to - now_);
    late_done_ += slowest * late;
    late_optimum_ += best * late;
    now_ = to;
  }

  void apply(const Change& change) {
    Agent& agent = agents_[change.agent];
    if (change.kind == Kind::kBalance) return balance();
    if (change.kind == Kind::kDeath) {
      if (agent.serving) serving_[agent.stage] -= agent.speed;
      if (agent.joining) loading_ -= agent.speed;
      alive_ -= agent.speed;
      agent.alive = agent.serving = agent.joining = false;
      ++agent.generation;
      const double away = prng_.exponential(options_.back_after.seconds());
      changes_.push({now_ + away, Kind::kReturn, change.agent, agent.generation});
    } else if (change.kind == Kind::kReturn) {
      agent.stage = options_.join_weakest ? joiner_stage(view(), {Bytes(1), {}}, 1).stage
                                          : static_cast<std::int32_t>(prng_.below(options_.stages));
      agent.alive = agent.joining = true;
      alive_ += agent.speed;
      loading_ += agent.speed;
      changes_.push({now_ + life(), Kind::kDeath, change.agent, agent.generation});
      download(change.agent);
    } else if (agent.alive && agent.generation == change.generation) {
      if (agent.joining) loading_ -= agent.speed;
      agent.joining = false;
      agent.serving = true;
      serving_[agent.stage] += agent.speed;
    }
  }

  void download(std::int32_t agent) {
    changes_.push(
        {now_ + options_.download.seconds(), Kind::kReady, agent, agents_[agent].generation});
  }

  RebalanceView view() const {
    RebalanceView view;
    view.stages.assign(options_.stages, {1, Bytes(1)});
    view.state.assign(options_.stages, Bytes(options_.download.ms()));
    view.sources.assign(options_.stages, 1000);  // a byte for every millisecond
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      const Agent& agent = agents_[i];
      if (!agent.alive) continue;
      view.replicas.push_back({ReplicaId(i + 1), agent.stage, agent.speed, Bytes(1),
                               seconds_f(options_.life_h * 3600), !agent.serving});
    }
    return view;
  }

  void balance() {
    for (const auto& move : rebalancer_.step(view()).moves) {
      const auto index = static_cast<std::int32_t>(move.replica.n) - 1;
      Agent& agent = agents_[index];
      serving_[agent.stage] -= agent.speed;
      agent.serving = false;
      agent.stage = move.to;
      ++measured_.moves;
      download(index);
    }
    changes_.push({now_ + options_.every.seconds(), Kind::kBalance, 0, 0});
  }

  const FluidOptions& options_;
  Prng prng_;
  std::vector<Agent> agents_;
  std::vector<double> serving_;
  ::shoal::swarm::Rebalancer rebalancer_;
  std::priority_queue<Change> changes_;
  double now_ = 0, alive_ = 0, done_ = 0, optimum_ = 0, late_done_ = 0, late_optimum_ = 0;
  double loading_ = 0, loaded_optimum_ = 0, whole_optimum_ = 0;
  FluidMeasured measured_;
};

}  // namespace

FluidMeasured simulate_fluid(const FluidOptions& options) {
  SHOAL_CHECK(options.stages > 0 && options.agents >= options.stages && !options.speeds.empty());
  return Fluid(options).run();
}

}  // namespace shoal::sim::swarm
