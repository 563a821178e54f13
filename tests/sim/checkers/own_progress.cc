// What a replica contributes is what it trained: its pseudo-gradient is the sum of the updates of
// the sequences that it reported, neither less nor more, however many commits came in between (in
// a group that gave up: and of the round before; with eager updates: and of the steps behind the
// boundary before, but of no estimate). Not for pipelines, whose later stages report no sequences,
// nor where local parameters are blended with the anchor or dropped in part (fragments, overlap
// without eager updates).
#include <cmath>
#include <map>

#include "tests/sim/checkers/checkers.h"
#include "tests/sim/checkers/lives.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {
namespace {

class OwnProgress final : public LifeChecker {
 public:
  using LifeChecker::LifeChecker;
  const char* name() const override { return "own_progress"; }

  void durable(const Record& record, const Tables&) override {
    const auto* job = std::get_if<coordinator::JobRecord>(&record);
    if (job != nullptr) seeds_[job->id] = adds_up(job->spec) ? job->spec.train.seed : kOther;
  }

  void reported(const Reported& r) override {
    const auto seed = seeds_.find(r.report.key.job);
    if (seed == seeds_.end() || seed->second == kOther) return;
    std::vector<float>& sum = sums_[r.replica];
    const auto kept = kept_.find(r.replica);
    sum.assign(static_cast<std::size_t>(options().values), 0.0f);
    if (kept != kept_.end()) sum = kept->second;
    for (const DataLease& lease : r.sequences) {
      for (std::int64_t s = lease.first; s < lease.first + lease.count; ++s) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += update(seed->second, s, i);
      }
    }
  }

  void stayed(const Stayed& s) override {
    const auto sum = sums_.find(s.replica);
    kept_.erase(s.replica);
    if (s.counts && sum != sums_.end()) kept_[s.replica] = sum->second;
  }

  void outer_stepped(const OuterStepped& s) override { kept_.erase(s.replica); }

  void contributed(const Contributed& c) override {
    const auto sum = sums_.find(c.replica);
    if (c.pseudo_gradient.empty() || sum == sums_.end() || is_tainted(c.replica)) return;
    for (std::size_t i = 0; i < sum->second.size(); ++i) {
      if (std::fabs(c.pseudo_gradient[i] - sum->second[i]) <= kRounding) continue;
      return violated(to_string(c.replica) + " contributes something else to " +
                      to_text(c.plan.key) + " than it trained, at value " + std::to_string(i));
    }
  }

 private:
  void begins_anew(ReplicaId replica) override {
    sums_.erase(replica);
    kept_.erase(replica);
  }

  static constexpr float kRounding = 1e-3f;
  static constexpr std::uint64_t kOther = UINT64_MAX;

  static bool adds_up(const JobSpec& spec) {
    return spec.swarm.stages == 1 && spec.sync.fragments == 1 &&
           (spec.sync.overlap_steps == Steps(0) || spec.sync.eager);
  }

  std::map<JobId, std::uint64_t> seeds_;
  std::map<ReplicaId, std::vector<float>> sums_;
  std::map<ReplicaId, std::vector<float>> kept_;  // reported, and not averaged yet
};

}  // namespace

std::unique_ptr<Checker> make_own_progress(const Checker::Context& context) {
  return std::make_unique<OwnProgress>(context);
}

}  // namespace shoal::sim
