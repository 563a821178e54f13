// Replicas move between stages for balance only where that settles: one that still loads does not
// move on, a device does not return to a stage that it has left within half an hour, and each move
// gains something and pays within the time that its agent is expected to stay. A coordinator that
// has just started does not know which stages devices have left, and a job that is placed anew
// begins without: it lets its devices go, or is in another epoch.
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::JobPhase;
using coordinator::JobRecord;
using coordinator::MoveReport;
using coordinator::Persist;
using coordinator::ReplicaRecord;
using coordinator::ShowPlacement;

class Moves final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "moves"; }

  void coordinator_started() override { left_.clear(), replicas_.clear(); }
  void restored(const Tables&, bool) override { left_.clear(), replicas_.clear(); }

  void emitted(const Emitted& step) override {
    for (const auto& effect : step.effects) {
      const auto* persist = std::get_if<Persist>(&effect);
      if (persist != nullptr) note(persist->record);
    }
    for (const auto& effect : step.effects) {
      const auto* shown = std::get_if<ShowPlacement>(&effect);
      const bool made = shown != nullptr && shown->has_new_move &&
                        shown->report->move->verdict == swarm::BalanceVerdict::kMoves;
      if (made) moved(shown->report->job, *shown->report->move);
    }
  }

 private:
  static constexpr Duration kAway = seconds(1800);

  void note(const Record& record) {
    if (const auto* replica = std::get_if<ReplicaRecord>(&record))
      replicas_[replica->id] = *replica;
    const auto* job = std::get_if<JobRecord>(&record);
    if (job == nullptr) return;
    const bool goes_on = std::exchange(epochs_[job->id], job->epoch) == job->epoch;
    if (goes_on && job->phase != JobPhase::kPaused && job->phase != JobPhase::kQueued) return;
    std::erase_if(left_,
                  [&](const auto& entry) { return std::get<JobId>(entry.first) == job->id; });
  }

  // Its record of this step says that it is released, and still what it held.
  void moved(JobId job, const MoveReport& move) {
    const std::string what = to_string(move.replica) + " moves from stage " +
                             std::to_string(move.from) + " to " + std::to_string(move.to);
    if (move.worth.gain <= 0 || move.worth.payback > move.worth.bound) {
      violated(what + " although that does not pay");
    }
    const auto known = replicas_.find(move.replica);
    if (known == replicas_.end()) return;  // written before this coordinator started
    const ReplicaRecord& replica = known->second;
    if (replica.held_round < 0) violated(what + " before it serves");
    auto& left = left_[{job, replica.agent, replica.device}];
    const auto before = left.find(move.to);
    if (before != left.end() && now() - before->second < kAway) {
      violated(what + ", which its device has left " +
               std::to_string((now() - before->second).ms() / 1000) + " s ago");
    }
    left[move.from] = now();
  }

  using Device = std::tuple<JobId, AgentId, std::int32_t>;
  std::map<Device, std::map<StageIndex, Instant>> left_;
  std::map<JobId, std::int64_t> epochs_;
  std::map<ReplicaId, ReplicaRecord> replicas_;  // as this coordinator wrote them
};

}  // namespace

std::unique_ptr<Checker> make_moves(const Checker::Context& context) {
  return std::make_unique<Moves>(context);
}

}  // namespace shoal::sim
