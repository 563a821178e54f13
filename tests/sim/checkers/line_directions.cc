// The recorded rate of a line is one that a trainer has measured in that direction, between those
// agents: moves, plans and reduces go by it.
#include <map>
#include <set>
#include <utility>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::LinkRecord;
using coordinator::Persist;
using coordinator::ReplicaRecord;

class LineDirections final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "line_directions"; }

  void reported(const Reported& reported) override {
    for (const LinkEstimate& link : reported.report.links) {
      measured_[{reported.replica, link.peer}].insert(link.to_per_s);
      measured_[{link.peer, reported.replica}].insert(link.from_per_s);
    }
  }

  void emitted(const Emitted& step) override {
    for (const auto& effect : step.effects) {
      const auto* persist = std::get_if<Persist>(&effect);
      if (persist == nullptr) continue;
      if (const auto* replica = std::get_if<ReplicaRecord>(&persist->record)) {
        agents_[replica->id] = replica->agent;
      }
      if (const auto* link = std::get_if<LinkRecord>(&persist->record)) check(*link);
    }
  }

 private:
  void check(const LinkRecord& link) {
    if (link.bytes_per_s <= 0) return;
    for (const auto& [pair, rates] : measured_) {
      const bool fits = is_of(pair.first, link.from) && is_of(pair.second, link.to);
      if (fits && rates.contains(link.bytes_per_s)) return;
    }
    violated("the line from " + to_string(link.from) + " to " + to_string(link.to) +
             " has a rate that was not measured in this direction");
  }

  // One whose record was not seen may be of any agent.
  bool is_of(ReplicaId replica, AgentId agent) const {
    const auto known = agents_.find(replica);
    return known == agents_.end() || known->second == agent;
  }

  std::map<std::pair<ReplicaId, ReplicaId>, std::set<double>>
      measured_;  // bytes/s, from whom to whom
  std::map<ReplicaId, AgentId> agents_;
};

}  // namespace

std::unique_ptr<Checker> make_line_directions(const Checker::Context& context) {
  return std::make_unique<LineDirections>(context);
}

}  // namespace shoal::sim
