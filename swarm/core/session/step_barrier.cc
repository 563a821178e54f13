#include "swarm/core/session/step_barrier.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"

namespace shoal::swarm {
namespace {

using enum BarrierState;

constexpr std::pair<BarrierState, BarrierState> kTable[] = {
    {kAtRest, kTraining},  {kTraining, kClosing}, {kTraining, kStopping}, {kTraining, kAtRest},
    {kClosing, kTraining}, {kClosing, kStopping}, {kClosing, kAtRest},    {kStopping, kTraining},
    {kStopping, kStopped}, {kStopping, kAtRest},  {kStopped, kTraining},  {kStopped, kAtRest},
};

}  // namespace

bool allowed(BarrierState from, BarrierState to) {
  return std::find(std::begin(kTable), std::end(kTable), std::pair(from, to)) != std::end(kTable);
}

void StepBarrier::transition(BarrierState to) {
  SHOAL_CHECK(allowed(state_, to),
              std::string("step barrier: ") + to_string(state_) + " -> " + to_string(to));
  state_ = to;
}

StepBarrier::StepBarrier(PipelineSchedule schedule, RoundNumber held, std::int64_t step)
    : schedule_(schedule), held_(held), opening_(step), step_(step) {}

bool StepBarrier::is_new(const OpenRound& round) const {
  return round.key.round == held_ + 1 && opened_ != std::pair(round.from_step, round.to_step);
}

void StepBarrier::open(const OpenRound& round) {
  SHOAL_CHECK(round.from_step <= round.to_step, "a round that ends before it begins");
  opened_ = std::pair(round.from_step, round.to_step);
  to_ = round.to_step.count();
  if (state_ != kTraining) transition(kTraining);
  if (round.from_step == round.to_step) stop();
  changed();
}

void StepBarrier::close() {
  if (state_ == kTraining) transition(kClosing);
}

void StepBarrier::stop() {
  if (state_ != kStopping) transition(kStopping);
}

void StepBarrier::commit(RoundNumber round, std::int64_t step) {
  if (state_ != kAtRest) transition(kAtRest);
  held_ = round;
  opening_ = step;
  to_ = 0;
  opened_.reset();
}

void StepBarrier::reach_boundary() {
  if (state_ != kStopping) return transition(kAtRest);
  transition(kStopped);
  // Without progress, the next opening may be the same; one without steps is not obeyed twice.
  if (opened_ && opened_->first < opened_->second) opened_.reset();
}

bool StepBarrier::may_compute(const Microbatch& m) const {
  if (m.round != held_ + 1 || m.step < step_ || m.step > open_to()) return false;
  if (state_ == kStopping) return false;
  return training() || m.kind != PassKind::kTrain;
}

BarrierVerdict StepBarrier::decide(const RoundProgress& progress,
                                   const std::vector<ReplicaId>& routers) const {
  using Kind = BarrierVerdict::Kind;
  if (progress.all_ended(routers, step_)) return {Kind::kBoundary, step_};
  if (progress.heard() > step_) return {Kind::kNextStep, progress.heard()};
  if (progress.all_done(routers, step_)) return {Kind::kNextStep, step_ + 1};
  return {Kind::kStay, step_};
}

}  // namespace shoal::swarm
