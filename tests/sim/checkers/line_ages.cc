// A measurement of a line counts for as long as kLinkFresh and no longer: the views of pipelines
// and the prices of moves go by what trainers have really measured since then. A record takes the
// time of a measurement only from one, never because a peer was merely reached. What the
// coordinator has measured of the line of a host counts for longer than a run
// (coordinator::kHostLineKnown): of such agents views and prices are not checked.
//
// Times are those of the simulation. The coordinator hears of a measurement later, and its clock
// may have lost time over restarts: both by less than kBehind, because faults do not last longer.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "coordinator/core/state/measured_lines.h"
#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::AgentRecord;
using coordinator::LinkRecord;
using coordinator::MoveReport;
using coordinator::Persist;
using coordinator::ReplicaRecord;
using coordinator::Send;
using coordinator::ShowPlacement;

class LineAges final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "line_ages"; }

  void restored(const Tables& tables, bool) override {
    recorded_.clear();
    for (const auto& [key, link] : tables.links) recorded_[key] = link.measured_at;
    for (const auto& [id, agent] : tables.agents) note_host_line(agent);
  }

  void reported(const Reported& reported) override {
    for (const LinkEstimate& link : reported.report.links) {
      if (link.to_per_s > 0) measured_[{reported.replica, link.peer}] = now();
      if (link.from_per_s > 0) measured_[{link.peer, reported.replica}] = now();
    }
  }

  void emitted(const Emitted& step) override {
    for (const auto& effect : step.effects) {
      if (const auto* persist = std::get_if<Persist>(&effect)) {
        if (const auto* replica = std::get_if<ReplicaRecord>(&persist->record)) {
          agents_[replica->id] = replica->agent;
        }
        if (const auto* agent = std::get_if<AgentRecord>(&persist->record)) note_host_line(*agent);
        if (const auto* link = std::get_if<LinkRecord>(&persist->record)) check(*link);
      } else if (const auto* send = std::get_if<Send>(&effect)) {
        const auto* view = std::get_if<ToReplica<PipelineView>>(&send->message);
        if (view != nullptr) check(view->body);
      } else if (const auto* shown = std::get_if<ShowPlacement>(&effect)) {
        if (shown->has_new_move && shown->report->move) check(*shown->report->move);
      }
    }
  }

 private:
  static constexpr Duration kBehind = seconds(600);

  using Pair = std::pair<ReplicaId, ReplicaId>;  // from whom to whom

  void note_host_line(const AgentRecord& agent) {
    if (agent.line.up + agent.line.down > 0) host_lines_.insert(agent.id);
  }

  void check(const LinkRecord& link) {
    Instant& recorded = recorded_[{link.from, link.to}];
    const bool is_renewed = link.measured_at > recorded;
    recorded = link.measured_at;
    if (link.bytes_per_s <= 0 || !is_renewed) return;
    const bool was_measured = any_within(kBehind, [&](const Pair& pair) {
      return is_of(pair.first, link.from) && is_of(pair.second, link.to);
    });
    if (was_measured) return;
    violated("the line from " + to_string(link.from) + " to " + to_string(link.to) +
             " is called measured, and was not");
  }

  void check(const PipelineView& view) {
    for (const PipelineMember& member : view.members) {
      const auto agent = agents_.find(member.replica);
      if (member.line_time <= Duration{} || agent == agents_.end()) continue;
      if (host_lines_.contains(agent->second)) continue;
      const bool is_fresh = any_within(coordinator::kLinkFresh + kBehind, [&](const Pair& pair) {
        return is_of(pair.first, agent->second) || is_of(pair.second, agent->second);
      });
      if (is_fresh) continue;
      violated("view " + std::to_string(view.number) + " of " + to_string(view.job) +
               " goes by an old measurement of the line of " + to_string(agent->second));
    }
  }

  // Where no line is known, all are taken for assumed ones.
  void check(const MoveReport& move) {
    const bool any_fresh = !host_lines_.empty() || any_within(coordinator::kLinkFresh + kBehind,
                                                              [](const Pair&) { return true; });
    if (any_fresh || move.worth.bytes_per_s >= coordinator::kAssumedLine) return;
    violated("the move of " + to_string(move.replica) + " is priced by an old measurement");
  }

  template <typename Fits>
  bool any_within(Duration age, const Fits& fits) const {
    return std::ranges::any_of(measured_, [&](const auto& entry) {
      return now() - entry.second <= age && fits(entry.first);
    });
  }

  // One whose record was not seen may be of any agent.
  bool is_of(ReplicaId replica, AgentId agent) const {
    const auto known = agents_.find(replica);
    return known == agents_.end() || known->second == agent;
  }

  std::map<Pair, Instant> measured_;                         // when last, by a trainer
  std::map<std::pair<AgentId, AgentId>, Instant> recorded_;  // by the coordinator's clock
  std::map<ReplicaId, AgentId> agents_;
  std::set<AgentId> host_lines_;  // measured by the coordinator
};

}  // namespace

std::unique_ptr<Checker> make_line_ages(const Checker::Context& context) {
  return std::make_unique<LineAges>(context);
}

}  // namespace shoal::sim
