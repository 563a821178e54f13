// The outer step of each kind of job, as a strategy: what a replica contributes, how an average
// changes the state, and what lies beside that. One implementation per kind:
//
//   none                  the local parameters become the anchor; nobody else is asked, but while a
//                         replica takes over from one that leaves: then they are averaged
//   ddp                   gradients are averaged, the outer step is an AdamW step (shared_adamw.h)
//   diloco, local_sgd     pseudo-gradients, the outer optimizer (outer_optimizer.h), whole or by
//                         fragment
//   async                 delayed Nesterov with the terms of the commit
//   groups                moshpit, gossip: one vector and anchor per member (groups.h)
//   sharded               the owners of the parts took the step (momentum_shards.h)
//
// This class decides who contributes what; the formula is the optimizer's.
//
// Not thread-safe. Spans of a fragment are packed, the others are whole vectors.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "job/job_spec.h"
#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/momentum_shards.h"
#include "outer_opt/core/step/outer_optimizer.h"
#include "outer_opt/core/step/shared_adamw.h"
#include "replica/core/local_parameters.h"
#include "replica/core/outer_state.h"

namespace shoal::replica {

class OuterAlgorithm {
 public:
  virtual ~OuterAlgorithm() = default;

  // Names of the vectors of the state; a sharded one has none.
  virtual std::span<const std::string_view> vectors() const { return kMomentum; }
  // The state of round 0, with an anchor of zeros.
  OuterState zero_state(std::int64_t value_count) const;
  // Makes a checkpoint's vectors, which are whole, the state's.
  virtual void adopt_vectors(NamedVectors vectors, OuterState& state) const;
  // The optimizer whose step() is all that this algorithm does with an average; null: there is more
  // to it. Only then can a device take the step, or a replica an eager one.
  virtual const outer_opt::OuterOptimizer* optimizer() const { return nullptr; }

  // The contribution at a boundary: anchor minus local on the fragment, or the gradient. Returns
  // how many local values beside the fragment are not finite.
  virtual std::int64_t contribution(const LocalParameters& local, const OuterState& state,
                                    const outer_opt::Fragment& fragment,
                                    std::span<float> out) const;

  // Whether that is anchor minus local until its round ends, so that it can be read there while
  // nothing is trained; else it is taken at the boundary.
  virtual bool can_read_contribution() const { return true; }

  // Why this kind of job cannot follow such a plan; empty: it can.
  virtual std::string mismatch(const ReducePlan& plan) const;
  // Whether this plan needs no reduce: the average is what is trained here.
  virtual bool averages_alone(const ReducePlan&) { return false; }
  // Whether the average has to lie here as values, all of them at once: for norm_of().
  virtual bool measures_average() const { return false; }
  // Makes of a contribution, in place, what enters the reduce of a group. True: it did, so that the
  // next attempt needs the contribution again.
  virtual bool enter_group(const OuterState&, std::span<float> /*contribution*/,
                           const ReducePlan&) const {
    return false;
  }
  // In a group: what a clipped member is pulled towards in the own part (groups.h), else empty.
  virtual std::span<const float> clip_center(const OuterState&) const { return {}; }

  // Sharded: what the plan moves here and has to be fetched first; nullopt: nothing. What was
  // fetched is staged, and becomes the state's with the commit of that plan.
  virtual Result<std::optional<outer_opt::Restaged>> missing_momentum(const ReducePlan&, ReplicaId,
                                                                      const OuterState&) {
    return std::optional<outer_opt::Restaged>();
  }
  // Whether nobody holds all of the momentum, so that a checkpoint gathers it.
  virtual bool gathers_momentum() const { return false; }
  virtual void stage(outer_opt::MomentumShards) {}
  virtual void forget_staged() {}
  // The momentum of the own part of a plan with an owner step, else empty.
  virtual std::span<const float> own_momentum(const ReducePlan&, ReplicaId,
                                              const OuterState&) const {
    return {};
  }

  // The outer step with the average that was voted for: begin_step(), then step() of each run of
  // the fragment, in any order, with the average of the run. Joiners that follow a round step in
  // their runs alone. Terms have what the commit carries, and norm_of() the whole average.
  virtual void begin_step(OuterState&) {}
  virtual void step(const outer_opt::StepTerms& terms, const outer_opt::ValueRange& run,
                    std::span<const float> average, OuterState& state) const = 0;
  virtual double norm_of(std::span<const float> /*average*/) const { return 0; }
  // How a joiner comes to the state.
  virtual outer_opt::JoinMode join_mode() const { return outer_opt::JoinMode::kFollows; }
  // What was trained since the last step is in it, or given up.
  virtual void forget_trained(LocalParameters&) const {}
  // Whether the state does not change between two commits, so that computing its digests again is
  // worth the time. False where each inner step is a round.
  virtual bool rests() const { return true; }
};

outer_opt::StepTerms step_terms(const CommitRound& commit, std::int32_t fragment, double norm);

// Derived fields of `spec` are filled. `ranges` say which values decay; for ddp.
std::unique_ptr<OuterAlgorithm> make_outer_algorithm(const JobSpec& spec,
                                                     std::vector<outer_opt::DecayRange> ranges);

}  // namespace shoal::replica
