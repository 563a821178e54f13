// One training of one arm in this process: K workers with the trainer's own model, learner and
// outer step, averaged by the real sessions. The coordinator's rules (weights, clip factors, what
// becomes of a lost round) are followed by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/convergence/arms.h"
#include "job/job_spec.h"

namespace shoal::bench {

struct Setting {  // the same for all arms
  std::string text;
  ModelSpec model;
  std::int64_t batch = 4;    // sequences per worker and inner step
  Steps steps{3000};         // inner steps of each worker
  std::int64_t points = 12;  // of the curve
  std::int64_t eval_positions = 20'480;
};

struct CurvePoint {
  Steps step;
  double loss = 0;  // nats per token, of the shared parameters on held-out text
};

struct Trajectory {
  std::vector<CurvePoint> curve;  // ends with the last step
  double bytes_per_step = 0;      // sent by one worker per inner step, frames with headers
  double seconds = 0;
  double final_loss() const { return curve.back().loss; }
};

// A run that leaves the finite numbers ends there, with an infinite loss.
Trajectory train(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed);

}  // namespace shoal::bench
