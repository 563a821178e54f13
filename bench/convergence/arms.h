// What the convergence harness compares: one arm is one way to train the same small model on the
// same text with the same number of inner steps per worker. Values only.
//
// An arm is what a job is that says nothing but its name: codec, outer step, clipping and topology
// are default_spec()'s where the name does not say otherwise.
//
// Rules of the comparison (they decide whether the figures mean anything): every arm with an inner
// loop of its own is tuned on its own, by factors of two in the inner learning rate; arms that
// change only what travels take over the rate of the arm they are a variant of, and are compared
// with it on the same seeds; what is evaluated are the shared parameters, on the same held-out
// text; intervals are printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job_rules.h"
#include "job/job_spec.h"

namespace shoal::bench {

// What a worker continues from whose contribution to a round is lost.
enum class AfterDrop {
  kStartsOver,       // from the shared parameters: its progress is lost
  kKeepsOwn,         // from its own, as in the DiLoCo paper
  kMovesWithAnchor,  // from its own, moved by the outer step: sync.algorithm = async, where the
                     // average of those that are there stands for their share
};

struct Arm {
  std::string name;
  std::string group;         // of a table and of one line in the plot
  SyncSpec sync;             // algorithm, every, codec, feedback, outer, clip
  std::int64_t workers = 4;  // 1: one worker alone
  double dropped = 0;        // probability that a worker's contribution to a round is lost
  AfterDrop after_drop = AfterDrop::kStartsOver;
  bool stored_order = false;  // reads in the order of jobs over datasets (stored_order.h)
  bool attacker = false;      // the last worker sends -10 times its pseudo-gradient
  std::string tuned_as;       // the arm whose learning rate it takes; its own name: it is tuned
  std::string base;           // the arm it is compared with; empty: none
  Optimizer optimizer = Optimizer::kAdamw;
  std::int64_t batch_factor = 1;  // times the batch of a worker: one with K times it is ddp
  std::int64_t seeds = 0;         // 0: as many as the campaign has
};

// All arms, those that others are tuned as before them.
std::vector<Arm> all_arms(std::int64_t workers);

}  // namespace shoal::bench
