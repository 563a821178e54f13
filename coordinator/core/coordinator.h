// The rules of the cluster behind one door: step(now, input, effects). One switch drives, the
// machines (job, agent, replica, round) move the state, decisions are pure functions beside them.
// There is no clock, socket, thread or file here; drivers bring time and input and perform the
// effects in order.
#pragma once

#include <memory>
#include <optional>

#include "base/digest.h"
#include "base/time.h"
#include "coordinator/core/decisions/options.h"
#include "coordinator/core/records/records.h"
#include "coordinator/core/state/io.h"

namespace shoal::coordinator {

struct State;  // state/state.h

class Coordinator {
 public:
  Coordinator(const Options& options, const Snapshot& snapshot);
  ~Coordinator();

  // Applies one input at one instant. `now` never goes back.
  void step(Instant now, const Input& input, Effects& out);

  // When a Tick is due; none while nothing waits.
  std::optional<Instant> next_deadline() const;

  // A digest of all durable state; equal after a replay from the store.
  Digest digest() const;

  const State& state() const { return *state_; }  // for views and checkers

 private:
  std::unique_ptr<State> state_;
};

}  // namespace shoal::coordinator
