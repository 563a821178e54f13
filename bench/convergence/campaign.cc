// See campaign.h.
#include "bench/convergence/campaign.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"
#include "bench/convergence/kept_runs.h"
#include "bench/tuning.h"

namespace shoal::bench {
namespace {

std::string line_of(const Arm& arm, double lr, std::uint64_t seed, const Trajectory& run) {
  char text[200];
  std::snprintf(text, sizeof text, "%-34s lr %-8g seed %llu  loss %.4f  (%.0f s)", arm.name.c_str(),
                lr, static_cast<unsigned long long>(seed), run.final_loss(), run.seconds);
  return text;
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const std::function<void(const std::string&)>& say)
      : options_(options), say_(say), kept_(options.keep) {}

  ArmResult result_of(const Arm& arm) {
    ArmResult result;
    result.arm = arm;
    const auto known = rates_.find(arm.tuned_as);
    result.lr = known != rates_.end() ? known->second : tuned(arm, result);
    const std::int64_t seeds = arm.seeds > 0 ? arm.seeds : options_.seeds;
    for (std::int64_t seed = 1; seed <= seeds; ++seed) {
      const Trajectory* made = run(arm, result.lr, static_cast<std::uint64_t>(seed));
      if (made == nullptr) break;
      result.runs.push_back(*made);
    }
    return result;
  }

 private:
  double tuned(const Arm& arm, ArmResult& result) {
    SHOAL_CHECK(arm.tuned_as == arm.name, "an arm comes after the one that it is tuned as");
    const double lr = tune(options_.first_lr, [&](double rate) {
      const Trajectory* made = run(arm, rate, kTuningSeed);
      if (made == nullptr) return std::numeric_limits<double>::infinity();
      const double loss = made->final_loss();
      result.sweep.emplace_back(rate, loss);
      return loss;
    });
    rates_[arm.name] = lr;
    return lr;
  }

  // Runs are the same whenever they are made: each is made once. Null: it may not be made.
  const Trajectory* run(const Arm& arm, double lr, std::uint64_t seed) {
    const std::string key = run_key(options_.setting, arm, lr, seed);
    if (const Trajectory* known = kept_.find(key)) return known;
    if (options_.kept_only) return nullptr;
    const Trajectory& made = kept_.keep(key, train(options_.setting, arm, lr, seed));
    say_(line_of(arm, lr, seed, made));
    return &made;
  }

  const CampaignOptions& options_;
  const std::function<void(const std::string&)>& say_;
  std::map<std::string, double> rates_;
  KeptRuns kept_;
};

bool wanted(const Arm& arm, const std::vector<Arm>& all, const std::string& only) {
  const auto named = [&](const Arm& a) { return a.name.find(only) != std::string::npos; };
  return named(arm) || std::any_of(all.begin(), all.end(), [&](const Arm& other) {
           return named(other) && other.tuned_as == arm.name;
         });
}

}  // namespace

std::vector<double> ArmResult::losses() const {
  std::vector<double> all;
  for (const Trajectory& run : runs) all.push_back(run.final_loss());
  return all;
}

std::vector<ArmResult> run_campaign(const CampaignOptions& options,
                                    const std::function<void(const std::string&)>& say) {
  Campaign campaign(options, say);
  const std::vector<Arm> arms = all_arms(options.workers);
  std::vector<ArmResult> results;
  for (const Arm& arm : arms) {
    if (!wanted(arm, arms, options.only)) continue;
    ArmResult result = campaign.result_of(arm);
    if (!result.runs.empty()) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace shoal::bench
