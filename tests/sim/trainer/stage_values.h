// The values of the simulated model that a stage has: the units of the model share them, so another
// cut gives a stage other values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "messages/messages.h"
#include "tests/sim/coordinator_process.h"

namespace shoal::sim {

struct StageValues {
  std::size_t first = 0, count = 0;
};

// The values of the stage that is assigned; `values`: of the model.
StageValues values_of_stage(const Assign& assign, std::int64_t values);

// The state of a stage in the files of one or several stages, in a row; none: they lack some of it.
std::optional<replica::OuterState> state_in(const CheckpointFiles& files, StageValues stage);

}  // namespace shoal::sim
