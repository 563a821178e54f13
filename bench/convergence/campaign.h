// All runs of the harness: for each arm the learning rate, then every seed at it.
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
  std::vector<std::pair<double, double>> sweep;  // (lr, loss) of the first seed, as tried
  std::vector<Trajectory> runs;                  // by seed
  double mean() const;
  double lowest() const;
  double highest() const;
};

// One line per run goes to `say`.
std::vector<ArmResult> run_campaign(const CampaignOptions& options,
                                    const std::function<void(const std::string&)>& say);

// By halves and doubles from `first`, as long as it gets better and stays within 64 times: the best
// rate, by `loss_at`. Every rate is tried once.
double tune(double first, const std::function<double(double)>& loss_at);

}  // namespace shoal::bench
