// The lines of a run: see trace.h.
#include "tests/sim/trace.h"

#include <cstdio>

namespace shoal::sim {

void Trace::add(Instant at, const std::string& line) {
  const std::int64_t ns = (at - kStart).ns;
  digester_.add(ns).add(line);
  ++lines_;
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%10.6f  ", static_cast<double>(ns) * 1e-9);
  last_.push_back(stamp + line);
  if (last_.size() > kKept) last_.pop_front();
  if (print_) std::printf("%s\n", last_.back().c_str());
}

}  // namespace shoal::sim
