// Where one replica is in its round, and when an inner step or the round is over:
//
//   at_rest   -> training     a round is opened
//   training  -> closing      its router must end with the current step, or another one has ended
//             -> stopping     the round was frozen without this replica, or has no steps: it was
//                             aborted after the job's last one
//             -> at_rest      all routers have ended: the boundary; likewise from closing
//   closing   -> training     opened again after an abort; likewise from stopping and stopped
//             -> stopping
//   stopping  -> stopped      the boundary: nothing is taken up until the next opening
//   any       -> at_rest      a commit
//
// The barrier itself is looked at only when something has changed that it depends on, and never
// while a pass is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/enumerators.h"
#include "swarm/core/session/round_progress.h"
#include "swarm/core/session/session_types.h"

namespace shoal::swarm {

enum class BarrierState { kAtRest, kTraining, kClosing, kStopping, kStopped };
constexpr auto enumerators_of(Of<BarrierState>) {
  using enum BarrierState;
  return enumerators<BarrierState>({{kAtRest, "at_rest"},
                                    {kTraining, "training"},
                                    {kClosing, "closing"},
                                    {kStopping, "stopping"},
                                    {kStopped, "stopped"}});
}
bool allowed(BarrierState from, BarrierState to);

// What the barrier says: stay, move on to `step`, or the round is over before `step`.
struct BarrierVerdict {
  enum class Kind { kStay, kNextStep, kBoundary };
  Kind kind = Kind::kStay;
  std::int64_t step = 0;
  bool operator==(const BarrierVerdict&) const = default;
};

class StepBarrier {
 public:
  // Holds round `held`, whose state opens inner step `step`.
  StepBarrier(PipelineSchedule schedule, RoundNumber held, std::int64_t step);

  // ---- inputs
  bool is_new(const OpenRound& round) const;  // of the round to come, with steps not opened before
  void open(const OpenRound& round);
  void close();
  void stop();
  void commit(RoundNumber round, std::int64_t step);
  void enter(std::int64_t step) { step_ = step; }
  void reach_boundary();
  void changed() { unseen_ = true; }  // something that decide() looks at

  // ---- what follows
  BarrierState state() const { return state_; }
  bool training() const {  // or on the way to the boundary
    return state_ != BarrierState::kAtRest && state_ != BarrierState::kStopped;
  }
  RoundNumber held() const { return held_; }
  std::int64_t opening() const { return opening_; }  // the step that the held state opens
  std::int64_t step() const { return step_; }        // the current one
  std::int64_t end() const { return to_; }           // the first step after the round
  // Steps from step() to this one are open: their passes are computed, their gradients added.
  std::int64_t open_to() const { return training() && two_versions() ? step_ + 1 : step_; }
  bool is_past(const Microbatch& m) const {
    return m.round <= held_ || (m.round == held_ + 1 && m.step < step_);
  }
  bool may_compute(const Microbatch& m) const;
  bool unseen() const { return unseen_; }
  void seen() { unseen_ = false; }
  BarrierVerdict decide(const RoundProgress& progress, const std::vector<ReplicaId>& routers) const;

 private:
  void transition(BarrierState to);
  bool two_versions() const { return schedule_ == PipelineSchedule::kTwoBufferedWeights; }

  friend FieldAccess;
  friend constexpr auto fields_of(Of<StepBarrier>) {
    using T = StepBarrier;
    return fields<&T::schedule_, &T::state_, &T::held_, &T::opening_, &T::step_, &T::to_,
                  &T::opened_, &T::unseen_>();
  }

  PipelineSchedule schedule_;
  BarrierState state_ = BarrierState::kAtRest;
  RoundNumber held_;
  std::int64_t opening_, step_, to_ = 0;
  std::optional<std::pair<Steps, Steps>> opened_;  // since the last commit
  bool unseen_ = true;
};

}  // namespace shoal::swarm
