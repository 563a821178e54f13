#include "swarm/core/plan/sharing.h"

#include <algorithm>
#include <cmath>

namespace shoal::swarm {
namespace {

constexpr int kPassesMax = 64;
constexpr double kSettled = 1e-6;  // of a share, between two passes
constexpr std::size_t kSearchedAgentsMax = 32;
constexpr double kGain = 1e-3;  // relative; below it a change does not pay

// The level up to which `speed` fills the stages of `held`, whose capacity is `capacity` without
// it.
double level_of(double speed, const std::vector<StageNeed>& stages,
                std::vector<const Placement*> held, const std::vector<double>& capacity) {
  std::sort(held.begin(), held.end(), [&](const Placement* a, const Placement* b) {
    return capacity[a->stage] < capacity[b->stage];
  });
  double work = 0, filled = 0;  // filled: sum of work * capacity of the stages below the level
  double level = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    work += stages[held[i]->stage].work;
    filled += stages[held[i]->stage].work * capacity[held[i]->stage];
    level = (speed + filled) / work;
    if (i + 1 < held.size() && level <= capacity[held[i + 1]->stage]) break;
  }
  return level;
}

// Divides one agent again; by how much its shares changed.
double divide(double speed, const std::vector<StageNeed>& stages,
              const std::vector<Placement*>& held, std::vector<double>& capacity) {
  for (const Placement* p : held) capacity[p->stage] -= p->share * speed / stages[p->stage].work;
  const double level = level_of(speed, stages, {held.begin(), held.end()}, capacity);
  double change = 0;
  for (Placement* p : held) {
    const double given = stages[p->stage].work * std::max(0.0, level - capacity[p->stage]);
    change = std::max(change, std::abs(given / speed - p->share));
    p->share = given / speed;
    capacity[p->stage] += given / stages[p->stage].work;
  }
  return change;
}

double throughput(const std::vector<double>& speeds, const std::vector<StageNeed>& stages,
                  std::vector<Placement> placements) {
  const auto capacity = level_shares(speeds, stages, placements);
  return *std::min_element(capacity.begin(), capacity.end());
}

struct Holdings {
  std::vector<Bytes> left;          // memory, by agent
  std::vector<std::int32_t> count;  // replicas, by stage
};

Holdings holdings_of(const std::vector<AssignableAgent>& agents,
                     const std::vector<StageNeed>& stages,
                     const std::vector<Placement>& placements) {
  Holdings holdings{{}, std::vector<std::int32_t>(stages.size(), 0)};
  for (const AssignableAgent& agent : agents) holdings.left.push_back(agent.memory);
  for (const Placement& p : placements) {
    holdings.left[static_cast<std::size_t>(p.agent)] -= stages[p.stage].memory;
    ++holdings.count[p.stage];
  }
  return holdings;
}

bool holds(const std::vector<Placement>& placements, std::int32_t agent, StageIndex stage) {
  return std::any_of(placements.begin(), placements.end(),
                     [&](const Placement& p) { return p.agent == agent && p.stage == stage; });
}

// Every placement set that differs by one stage more of `agent`, or by another one for one of its.
std::vector<std::vector<Placement>> changes_of(std::int32_t agent,
                                               const std::vector<StageNeed>& stages,
                                               const AssignmentOptions& options,
                                               const Holdings& holdings,
                                               const std::vector<Placement>& placements) {
  std::vector<std::vector<Placement>> changes;
  const Bytes left = holdings.left[static_cast<std::size_t>(agent)];
  for (StageIndex to = 0; to < static_cast<StageIndex>(stages.size()); ++to) {
    const bool full = options.max_replicas > 0 && holdings.count[to] >= options.max_replicas;
    if (full || holds(placements, agent, to)) continue;
    if (left >= stages[to].memory) {
      changes.push_back(placements);
      changes.back().push_back({agent, to, 0});
    }
    for (std::size_t i = 0; i < placements.size(); ++i) {
      const Placement& p = placements[i];
      if (p.agent != agent || holdings.count[p.stage] <= options.min_replicas) continue;
      if (left + stages[p.stage].memory < stages[to].memory) continue;
      changes.push_back(placements);
      changes.back()[i].stage = to;
    }
  }
  return changes;
}

// Every placement set in which an agent of the weakest stage has exchanged it for another's stage.
std::vector<std::vector<Placement>> exchanges_of(StageIndex weakest,
                                                 const std::vector<StageNeed>& stages,
                                                 const Holdings& holdings,
                                                 const std::vector<Placement>& placements) {
  std::vector<std::vector<Placement>> changes;
  const auto fits = [&](const Placement& giver, StageIndex taken) {
    return holdings.left[static_cast<std::size_t>(giver.agent)] + stages[giver.stage].memory >=
               stages[taken].memory &&
           !holds(placements, giver.agent, taken);
  };
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (placements[i].stage != weakest) continue;
    for (std::size_t j = 0; j < placements.size(); ++j) {
      if (!fits(placements[i], placements[j].stage) || !fits(placements[j], weakest)) continue;
      changes.push_back(placements);
      std::swap(changes.back()[i].stage, changes.back()[j].stage);
    }
  }
  return changes;
}

// False: no change raises the weakest stage.
bool improve_once(const std::vector<AssignableAgent>& agents, const std::vector<StageNeed>& stages,
                  const AssignmentOptions& options, std::vector<Placement>& placements) {
  std::vector<double> speeds;
  for (const AssignableAgent& agent : agents) speeds.push_back(agent.speed);
  const Holdings holdings = holdings_of(agents, stages, placements);
  const auto capacity = level_shares(speeds, stages, placements);
  const auto weakest = std::min_element(capacity.begin(), capacity.end());
  double best = *weakest * (1 + kGain);
  std::vector<Placement> chosen;
  const auto consider = [&](std::vector<std::vector<Placement>> changes) {
    for (std::vector<Placement>& changed : changes) {
      const double reached = throughput(speeds, stages, changed);
      if (reached > best) best = reached, chosen = std::move(changed);
    }
  };
  for (std::int32_t agent = 0; agent < static_cast<std::int32_t>(agents.size()); ++agent) {
    consider(changes_of(agent, stages, options, holdings, placements));
  }
  consider(exchanges_of(static_cast<StageIndex>(weakest - capacity.begin()), stages, holdings,
                        placements));
  if (chosen.empty()) return false;
  placements = std::move(chosen);
  return true;
}

}  // namespace

std::vector<double> level_shares(const std::vector<double>& speeds,
                                 const std::vector<StageNeed>& stages,
                                 std::vector<Placement>& placements) {
  std::vector<std::vector<Placement*>> held(speeds.size());
  for (Placement& p : placements) held[static_cast<std::size_t>(p.agent)].push_back(&p);
  std::vector<double> capacity(stages.size(), 0);
  for (Placement& p : placements) {
    const auto agent = static_cast<std::size_t>(p.agent);
    p.share = 1.0 / static_cast<double>(held[agent].size());
    capacity[p.stage] += p.share * speeds[agent] / stages[p.stage].work;
  }
  std::vector<std::size_t> sharing;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i].size() > 1 && speeds[i] > 0) sharing.push_back(i);
  }
  for (int pass = 0; pass < kPassesMax; ++pass) {
    double change = 0;
    for (const std::size_t i : sharing) {
      change = std::max(change, divide(speeds[i], stages, held[i], capacity));
    }
    if (change < kSettled) break;
  }
  return capacity;
}

void improve_sharing(const std::vector<AssignableAgent>& agents,
                     const std::vector<StageNeed>& stages, const AssignmentOptions& options,
                     std::vector<Placement>& placements) {
  if (agents.size() > kSearchedAgentsMax) return;
  const std::size_t steps_max = 2 * stages.size() + 8;
  for (std::size_t step = 0; step < steps_max; ++step) {
    if (!improve_once(agents, stages, options, placements)) return;
  }
}

}  // namespace shoal::swarm
