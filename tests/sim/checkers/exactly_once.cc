// A gradient counts once. A replica adds a microbatch at most once until its boundary. What a
// router reports as trained is what it added itself: the ledger of stage 0 defines what counts.
// Below stage 0 two replicas of a stage may add the same microbatch, when a replica above them was
// lost; all of those but the first must have been counted as sent again.
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

class ExactlyOnce final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "exactly_once"; }

  void gradient_added(const GradientAdded& g) override {
    const std::string what = to_string(g.replica) + " of stage " + std::to_string(g.stage) +
                             " adds microbatch " + std::to_string(g.microbatch.index) +
                             " of step " + std::to_string(g.microbatch.step) + " of " +
                             to_string(g.microbatch.router);
    if (!added_[g.replica].insert({g.key, g.microbatch}).second) return violated(what + " twice");
    if (g.stage == 0) sequences_[g.replica].insert(g.first);
    Adders& adders = adders_of(g);
    ++adders.replicas;
    adders.counted += g.again;
    if (adders.replicas - 1 <= adders.counted) return;
    violated(what + ", as another replica did, and neither counted it as sent again");
  }

  void reported(const Reported& r) override {
    added_.erase(r.replica);
    const auto mine = sequences_.find(r.replica);
    if (mine == sequences_.end()) return;  // it adds nothing as a router
    for (const DataLease& lease : r.sequences) {
      if (mine->second.contains(lease.first)) continue;
      violated(to_string(r.replica) + " reports sequence " + std::to_string(lease.first) +
               ", whose gradient it has not added");
    }
  }

  void replica_ended(const std::string&, ReplicaId replica) override {
    added_.erase(replica);
    sequences_.erase(replica);
  }

 private:
  struct Adders {
    std::int64_t replicas = 0, counted = 0;
  };
  using Key = std::tuple<StageIndex, std::int32_t, swarm::Microbatch>;  // with the aborts before
  struct Round {
    RoundNumber number = 0;
    std::map<Key, Adders> adders;
  };

  // Only for the newest round: what a late replica adds to an older one counts in none.
  Adders& adders_of(const GradientAdded& g) {
    Round& round = rounds_[{g.key.job, g.key.epoch}];
    if (g.microbatch.round < round.number) return late_ = {};
    if (g.microbatch.round > round.number) round = {g.microbatch.round, {}};
    return round.adders[{g.stage, g.aborts, g.microbatch}];
  }

  std::map<ReplicaId, std::set<std::pair<RoundKey, swarm::Microbatch>>> added_;
  std::map<ReplicaId, std::set<std::int64_t>> sequences_;
  std::map<std::pair<JobId, std::int64_t>, Round> rounds_;
  Adders late_;
};

}  // namespace

std::unique_ptr<Checker> make_exactly_once(const Checker::Context& context) {
  return std::make_unique<ExactlyOnce>(context);
}

}  // namespace shoal::sim
