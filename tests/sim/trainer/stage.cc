// A simulated replica of a pipeline as its stage driver sees it: what a pass costs, which sequence
// a microbatch is, what its gradient does to the parameters, and when the boundary is reached.
#include <utility>

#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using namespace outer_opt;

namespace {

// Where devices are unequal, two of the same kind differ, too.
double factor_of_device(const SimOptions& options, int host, std::int32_t device) {
  if (!options.unequal) return 1;
  const auto which = static_cast<std::uint64_t>(host) * 64 + static_cast<std::uint64_t>(device);
  return 0.8 + 0.45 * Prng(mix_seed(options.seed, 0xdef1ce00 + which)).unit();
}

}  // namespace

void Trainer::begin_stage(const RoundKey& held, Steps step) {
  Replica& r = *replica_;
  const JobSpec& spec = r.assign.spec;
  if (r.stage) r.stage->close();
  r.lease.emplace(spec.train.microbatch);
  const swarm::SessionOptions options{.self = r.id,
                                      .stage = r.assign.stage,
                                      .stages = static_cast<std::int32_t>(r.assign.cut.size()),
                                      .microbatch = spec.train.microbatch,
                                      .context = spec.model.context,
                                      .schedule = spec.swarm.schedule,
                                      .seed = prng_.next()};
  const auto send = [](PeerEnd& end, const StageFrame& frame) {
    static_cast<Trainer&>(end).take_stage_frame(frame);
  };
  r.stage = std::make_shared<StageDriver>(sim_, peers_, *this, process_, *this, send, options, held,
                                          step.count());
  r.stage->tell();
}

void Trainer::take_stage_frame(const StageFrame& frame) {
  if (!replica_) return;
  if (const auto stage = replica_->stage) stage->take_frame(frame);
}

// What is left of the order is what the session is told, as in the product.
void Trainer::open_stage(const OpenRound& round) {
  Replica& r = *replica_;
  r.lease->open(round);
  OpenRound left = round;
  left.leases = r.lease->left();
  const auto stage = r.stage;
  stage->open(left);
}

// An inner step is as long as with one stage, whatever the number of its microbatches.
Duration Trainer::pass_time(swarm::ComputeKind kind) {
  const Duration time = step_time();
  const JobSpec& spec = replica_->assign.spec;
  const auto passes =
      static_cast<double>(spec.train.batch) / static_cast<double>(spec.train.microbatch);
  const double part = kind == swarm::ComputeKind::kLast      ? 1
                      : kind == swarm::ComputeKind::kForward ? 1. / 3
                                                             : 2. / 3;
  const double factor = factor_of_device(sim_.options, host_, replica_->assign.device);
  return seconds_f(time.seconds() * part * factor / passes);
}

std::int64_t Trainer::draw(const swarm::Microbatch& microbatch) {
  const auto first = replica_->lease->draw(microbatch.step, microbatch.index);
  SHOAL_CHECK(first.has_value(), "a router draws more than it was leased");
  return *first;
}

void Trainer::pass_begins(const swarm::Compute& pass) {
  const bool trains = pass.microbatch.kind == swarm::PassKind::kTrain && pass.add;
  if (!trains || pass.kind == swarm::ComputeKind::kForward) return;
  sim_.observe(&Checker::stepped, InnerStep{replica_->id, replica_->view});
}

void Trainer::add_gradient(const swarm::Microbatch& microbatch, std::int64_t first, bool again) {
  Replica& r = *replica_;
  const std::int64_t count = r.assign.spec.train.microbatch;
  for (std::int64_t n = 0; n < count; ++n) train_on(first + n);
  if (!is_router()) r.handled += count;
  sim_.observe(&Checker::gradient_added, GradientAdded{r.id, r.assign.stage, r.open.key,
                                                       r.open.aborts, microbatch, first, again});
}

void Trainer::came_back(const swarm::Microbatch& microbatch, std::int64_t first) {
  Replica& r = *replica_;
  r.lease->answered(microbatch.step, microbatch.index);
  r.trained.push_back({first, r.assign.spec.train.microbatch});
}

void Trainer::took_step(const swarm::TakeStep& step) {
  if (step.tokens > Tokens()) replica_->steps += Steps(1);
}

void Trainer::reached(const swarm::ReachBoundary&) { boundary(); }

void Trainer::told(const PipelineStats& stats) { say(stats); }

void Trainer::gave_up(const std::string& detail) { fail(ReplicaFailure::kPeerUnreachable, detail); }

}  // namespace shoal::sim
