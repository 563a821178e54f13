#include "tests/sim/trainer/stage_values.h"

#include <vector>

namespace shoal::sim {

StageValues values_of_stage(const Assign& assign, std::int64_t values) {
  const UnitRange units = assign.cut.at(static_cast<std::size_t>(assign.stage));
  const std::int64_t all = assign.cut.back().last;
  const auto first = static_cast<std::size_t>(values * units.first / all);
  return {first, static_cast<std::size_t>(values * units.last / all) - first};
}

std::optional<replica::OuterState> state_in(const CheckpointFiles& files, StageValues stage) {
  const std::size_t end = files.first + files.state.anchor.size();
  if (stage.first < files.first || stage.first + stage.count > end) return std::nullopt;
  replica::OuterState state = files.state;
  const auto skipped = static_cast<std::ptrdiff_t>(stage.first - files.first);
  const auto cut = [&](std::vector<float>& values) {
    const auto from = values.begin() + skipped;
    values = std::vector<float>(from, from + static_cast<std::ptrdiff_t>(stage.count));
  };
  cut(state.anchor);
  for (NamedVector& vector : state.vectors) cut(vector.values);
  return state;
}

}  // namespace shoal::sim
