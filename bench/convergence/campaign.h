// All runs of the harness: for each arm the learning rate, by a seed that is not
// reported, then the reported seeds at it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/convergence/training.h"

namespace shoal::bench {

struct CampaignOptions {
  Setting setting;
  std::int64_t workers = 4;
  std::int64_t seeds = 3;
  double first_lr = 4e-3;  // where every sweep begins
  std::string keep;        // file of finished runs, which are not made again; empty: none
  bool kept_only = false;  // makes no run: arms without a kept one are left out
  std::string only;        // arms whose name has this in it, and those they are tuned as
};

struct ArmResult {
  Arm arm;
  double lr = 0;
  std::vector<std::pair<double, double>> sweep;  // (lr, loss) of the tuning seed, as tried
  std::vector<Trajectory> runs;                  // by seed
  std::vector<double> losses() const;            // of the last step, by seed
};

// One line per run goes to `say`.
std::vector<ArmResult> run_campaign(const CampaignOptions& options,
                                    const std::function<void(const std::string&)>& say);

}  // namespace shoal::bench
