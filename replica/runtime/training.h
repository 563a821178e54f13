// How a replica gets from the opening of a round to its boundary: alone with the whole model, or as
// a stage of a pipeline. A Training changes the local parameters of the Compute and counts what
// was trained; rounds, averaging and commits are Replica's. Between two calls of work() little
// time passes: one inner step, one batch or one pass.
//
// Belongs to the compute thread. A method that returns a failure leaves the replica unusable.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "messages/trainer_messages.h"
#include "outer_opt/core/participant/participant.h"
#include "outer_opt/core/participant/step_cursor.h"
#include "outer_opt/core/round/lease_runs.h"
#include "replica/runtime/compute.h"
#include "replica/runtime/held_parameters.h"

namespace shoal::replica {

// Since the last commit. An aborted round's continues to be counted.
struct Trained {
  Steps steps;               // inner steps
  Tokens tokens;             // whose gradients were added here
  Tokens drawn;              // that this replica drew; alone the same ones
  double loss_sum = 0;       // nats, over `drawn`
  std::int64_t skipped = 0;  // steps that were not finite
  double compute_s = 0;
  double stall_s = 0;           // with nothing to train, from the end of a round to the next
  outer_opt::LeaseRuns unused;  // at the boundary: leased, and not to be trained
};

struct TrainingContext {
  ReplicaId replica;
  const JobSpec& spec;  // derived fields filled
  Compute& compute;
  HeldParameters& parameters;  // the compute's
  std::function<std::span<const float>()> anchor;
  std::function<void(const FromTrainer&)> say;
  std::function<void(const Trained&)> boundary;  // from stop() and work(); nothing is trained
                                                 // after it until open()
  std::function<void()> adopt;  // the result of the committed round becomes local; where goes_on()
  std::function<void(std::string)> sampled;  // the answer to sample(); from any call
};

class Training {
 public:
  virtual ~Training() = default;

  virtual MaybeFailure open(const OpenRound& round) = 0;  // also after an abort: more steps
  virtual void stop(outer_opt::StopAt at) = 0;            // leads to a boundary when it trains
  // Whether it continues behind the boundary that it reported: then the result of that round is
  // adopted later, by context.adopt() at a fixed step.
  virtual bool goes_on() const { return false; }
  // From `boundary`: what was trained until here is dropped. Its steps stay counted, because their
  // sequences are used up; its tokens have no weight in a later report of the round.
  virtual void drop_trained() = 0;
  // The outer step was taken. What was counted is void, except steps behind the boundary, unless it
  // is kept; the parameters are those of `round`, or will be (goes_on()), or have moved with it.
  virtual void committed(RoundNumber round, Steps next_step, outer_opt::CommitOutcome outcome) = 0;
  virtual void evaluate(
      const Evaluate& command) = 0;  // of the committed parameters; says Evaluated
  virtual void view(const PipelineView& view) = 0;
  // After committed(), stage 0: a text from the committed parameters (sample_draft.h), before
  // anything is trained. `sampled` is called once, also when nothing comes of it.
  virtual void sample(RoundNumber round) = 0;

  virtual Duration idle() const = 0;  // how long work() has nothing to do, when nothing happens
  virtual MaybeFailure work() = 0;    // one piece, or nothing
};

}  // namespace shoal::replica
