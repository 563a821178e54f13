// One checker alone: a test shows it what a simulation would, and reads what it objects to.
#pragma once

#include <memory>
#include <optional>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {

struct CheckerRig {
  using Make = std::unique_ptr<Checker> (*)(const Checker::Context&);
  explicit CheckerRig(Make make) : checker(make({options, now, broken, tainted, census})) {}

  SimOptions options;
  Instant now;
  std::optional<BrokenInvariant> broken;
  std::set<ReplicaId> tainted;
  const Census* census = nullptr;
  std::unique_ptr<Checker> checker;
};

}  // namespace shoal::sim
