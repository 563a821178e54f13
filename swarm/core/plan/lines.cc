#include "swarm/core/plan/lines.h"

#include <algorithm>
#include <limits>

namespace shoal::swarm {
namespace {

constexpr int kPassesMax = 12;
constexpr double kSettled = 1e-3;  // of the load of a line

// The placements of a plan and what their lines make of them. A line lets a share `open` of what
// those behind it could do through.
class Flow {
 public:
  Flow(StageIndex stages, const std::vector<Placement>& placements,
       const std::vector<double>& rates, const LineMap& lines, double boundary_bytes)
      : stages_(static_cast<std::size_t>(stages)),
        placements_(placements),
        rates_(rates),
        lines_(lines),
        boundary_bytes_(boundary_bytes),
        open_(lines.lines().size(), 1),
        capacity_(stages_),
        shares_(placements.size()),
        behind_(lines.lines().size() * stages_) {}

  LineFlow settled() {
    LineFlow flow;
    for (int pass = 0; pass < kPassesMax; ++pass) {
      divide();
      if (!adjust(flow)) break;
    }
    for (const double share : shares_) flow.rates.push_back(share * flow.tokens_per_s);
    return flow;
  }

 private:
  // The shares that placements have of their stages, and what the weakest stage can do.
  void divide() {
    std::ranges::fill(capacity_, 0);
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      double able = rates_[i];
      for (const std::int32_t line : lines_.of(placements_[i].agent)) able *= open_[line];
      shares_[i] = able;
      capacity_[placements_[i].stage] += able;
    }
    weakest_ = *std::ranges::min_element(capacity_);
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      const double all = capacity_[placements_[i].stage];
      shares_[i] = all > 0 ? shares_[i] / all : 0;
    }
  }

  // Opens or closes every line by its load; false: nothing changes any more.
  bool adjust(LineFlow& flow) {
    note_who_is_behind();
    bool changed = false;
    double over = 1, tightest = 1;
    flow.full_line = -1;
    for (std::size_t line = 0; line < open_.size(); ++line) {
      const double rate = lines_.lines()[line].bytes_per_s;
      if (rate <= 0) continue;
      const double used = weakest_ * crossing(line) * boundary_bytes_ / rate;
      over = std::max(over, used);
      const double next = used > 0 ? std::clamp(open_[line] / used, 0.0, 1.0) : 1;
      if (next < tightest) tightest = next, flow.full_line = static_cast<std::int32_t>(line);
      changed = changed || std::abs(next - open_[line]) > kSettled * open_[line];
      open_[line] = next;
    }
    flow.tokens_per_s = weakest_ / over;
    return changed;
  }

  void note_who_is_behind() {
    std::ranges::fill(behind_, 0);
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      for (const std::int32_t line : lines_.of(placements_[i].agent)) {
        behind_[static_cast<std::size_t>(line) * stages_ +
                static_cast<std::size_t>(placements_[i].stage)] += shares_[i];
      }
    }
  }

  // How often a token passes the line one way, forward or backward.
  double crossing(std::size_t line) const {
    const double* share = behind_.data() + line * stages_;
    double sum = 0;
    for (std::size_t s = 0; s + 1 < stages_; ++s) {
      sum += share[s] * (1 - share[s + 1]) + share[s + 1] * (1 - share[s]);
    }
    return sum;
  }

  const std::size_t stages_;
  const std::vector<Placement>& placements_;
  const std::vector<double>& rates_;
  const LineMap& lines_;
  const double boundary_bytes_;
  std::vector<double> open_;      // by line
  std::vector<double> capacity_;  // by stage, tokens/s
  std::vector<double> shares_;    // of its stage, by placement
  std::vector<double> behind_;    // by line and stage: the share of the stage behind the line
  double weakest_ = 0;
};

}  // namespace

LineMap::LineMap(std::size_t agents, const std::vector<SharedLine>& lines)
    : lines_(lines), of_(agents), slowest_(agents, 0) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double rate = lines[i].bytes_per_s;
    if (rate <= 0) continue;
    for (const std::int32_t agent : lines[i].agents) {
      of_[agent].push_back(static_cast<std::int32_t>(i));
      slowest_[agent] = slowest_[agent] > 0 ? std::min(slowest_[agent], rate) : rate;
    }
  }
}

LineFlow flow_through(StageIndex stages, const std::vector<Placement>& placements,
                      const std::vector<double>& rates, const LineMap& lines,
                      double boundary_bytes) {
  return Flow(stages, placements, rates, lines, boundary_bytes).settled();
}

}  // namespace shoal::swarm
