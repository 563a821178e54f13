// One training of the small model (small_model.h) by K workers with AdamW, a linear warm-up and a
// cosine, as a job's learner has them, averaged every few steps with the product's clip factors and
// outer step (outer_opt/core). Pseudo-gradients travel in fp32 and in one process, but where
// workers lie (verified_rounds.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/outer/small_model.h"
#include "bench/outer/verified_rounds.h"
#include "job/job_spec.h"

namespace shoal::bench {

enum class Averaging {
  kGradients,  // of every inner step: the synchronous baseline
  kDiloco,
  kAsync,  // the average of k of K workers stands for the share k / K (nesterov.h, delayed)
};

// What a worker continues from whose contribution to a round was lost.
enum class Lost { kStartsOver, kKeepsOwn, kMovesWithAnchor };

struct SmallArm {
  std::string name;
  Averaging averaging = Averaging::kDiloco;
  OuterSpec outer;
  double dropped = 0;  // probability that a worker's contribution to a round is lost
  Lost lost = Lost::kStartsOver;
  std::optional<LiarSetting> liars;  // reduces are those of the product, and two workers may lie
};

struct SmallLength {
  std::int64_t rounds = 40, every = 20, workers = 4;
};

// The held-out loss after the last round, in nats per symbol; `named`: who was found to lie.
double train_small(SmallModel& model, const SmallArm& arm, const SmallLength& length, double lr,
                   std::uint64_t seed, Named* named = nullptr);

}  // namespace shoal::bench
