// Finished runs in a file of JSON lines, so that a campaign that was stopped continues where it
// was. A run is known by everything that decides its outcome; other lines are left alone.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "bench/convergence/training.h"

namespace shoal::bench {

// What decides the outcome of a run, in words.
std::string run_key(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed);

class KeptRuns {
 public:
  // An empty path: nothing is read or written. Throws when the file cannot be read or written.
  explicit KeptRuns(const std::string& path);

  const Trajectory* find(const std::string& key) const;
  const Trajectory& keep(const std::string& key, Trajectory run);

 private:
  std::map<std::string, Trajectory> runs_;
  std::ofstream out_;
};

}  // namespace shoal::bench
