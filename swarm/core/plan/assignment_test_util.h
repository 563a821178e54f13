// For the tests of the assignment: the best throughput that any assignment has, found by trying
// all. For a few agents and stages only.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "swarm/core/plan/assignment.h"

namespace shoal::swarm {

// The best division for agents that hold these sets of stages (a bit each): the least, over all
// sets S of stages, of (speed that may serve S) / (work of S). No division is better, and one
// reaches it (Hall's condition for the transport problem).
inline double best_division(const std::vector<double>& speeds, const std::vector<StageNeed>& stages,
                            const std::vector<unsigned>& holds) {
  double best = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < (1u << stages.size()); ++set) {
    double speed = 0, work = 0;
    for (std::size_t i = 0; i < speeds.size(); ++i) speed += (holds[i] & set) != 0 ? speeds[i] : 0;
    for (std::size_t s = 0; s < stages.size(); ++s)
      work += (set >> s & 1u) != 0 ? stages[s].work : 0;
    best = std::min(best, speed / work);
  }
  return best;
}

class BestAssignment {
 public:
  BestAssignment(const std::vector<AssignableAgent>& agents, const std::vector<StageNeed>& stages,
                 const AssignmentOptions& options)
      : agents_(agents), stages_(stages), options_(options) {
    for (const AssignableAgent& agent : agents) speeds_.push_back(agent.speed);
  }
  // 0: there is none. Agents hold something wherever they can, which never is worse.
  double throughput() {
    holds_.assign(agents_.size(), 0);
    count_.assign(stages_.size(), 0);
    best_ = 0;
    try_from(0);
    return best_;
  }

 private:
  bool may_hold(std::size_t agent, unsigned set) const {
    if (!options_.several_stages_per_agent && __builtin_popcount(set) > 1) return false;
    Bytes memory;
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if ((set >> s & 1u) != 0) memory += stages_[s].memory;
    return memory <= agents_[agent].memory;
  }
  void count(unsigned set, std::int32_t by) {
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if ((set >> s & 1u) != 0) count_[s] += by;
  }
  void try_from(std::size_t agent) {
    if (agent == agents_.size()) {
      const bool enough = std::all_of(count_.begin(), count_.end(), [&](std::int32_t count) {
        return count >= options_.min_replicas;
      });
      if (enough) best_ = std::max(best_, best_division(speeds_, stages_, holds_));
      return;
    }
    bool somewhere = false;
    for (unsigned set = (1u << stages_.size()) - 1; set > 0 || !somewhere; --set) {
      if (!may_hold(agent, set)) continue;
      somewhere = true;
      holds_[agent] = set;
      count(set, 1);
      try_from(agent + 1);
      count(set, -1);
    }
  }

  const std::vector<AssignableAgent>& agents_;
  const std::vector<StageNeed>& stages_;
  const AssignmentOptions options_;
  std::vector<double> speeds_;
  std::vector<unsigned> holds_;
  std::vector<std::int32_t> count_;
  double best_ = 0;
};

}  // namespace shoal::swarm
