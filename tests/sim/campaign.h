// Many seeds, each run twice: both runs must give the same trace digest and no broken invariant.
// Faults and transitions are counted over all; a long campaign that never saw one of them fails.
// Seeds run side by side in threads, which share nothing; what comes out does not depend on their
// number.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/sim.h"

namespace shoal::sim {

struct RunResult {
  std::uint64_t seed = 0;
  Digest trace;
  std::int64_t lines = 0, events = 0;
  double virtual_s = 0, recovery_s = 0;
  FaultCounts faults;
  TransitionCounts transitions;
  std::optional<BrokenInvariant> broken;
  std::deque<std::string> last_lines;
  std::int64_t bug_fired = 0;
  std::int64_t jobs_completed = 0, jobs_over = 0, rounds_committed = 0;
};

RunResult run_seed(std::uint64_t seed, Bug bug, bool print_trace,
                   FaultSet faults = FaultSet::kEndured);

struct CampaignResult {
  std::int64_t runs = 0, events = 0, jobs_completed = 0, jobs_over = 0, rounds_committed = 0;
  double virtual_s = 0;
  double recovery_s_max = 0;  // from the last fault until every live job committed again
  std::uint64_t recovery_seed = 0;
  FaultCounts faults;
  TransitionCounts transitions;
  std::vector<RunResult> failures;   // the first bad seed, or all of them
  std::vector<std::string> missing;  // faults and transitions that never happened
  bool ok() const { return failures.empty() && missing.empty(); }
};

inline constexpr std::int64_t kSeedsForCoverage = 200;

struct Campaign {
  std::uint64_t from = 1;
  std::int64_t seeds = 200;
  Bug bug = Bug::kNone;
  FaultSet faults = FaultSet::kEndured;
  int threads = 1;
  bool go_on = false;  // after a bad seed
  // If given, hears of each seed in the thread that is about to run it.
  std::function<void(std::uint64_t)> about_to_run = {};
};

CampaignResult run_campaign(const Campaign& campaign);

// Runs seeds until one fails; empty when the bug's own checker caught it, else what went wrong
// instead.
std::string catch_bug(const PlantedBug& bug, std::int64_t seeds);

std::string failure_text(const RunResult& run, Bug bug, FaultSet faults = FaultSet::kEndured);
std::string to_json(const CampaignResult& result);

}  // namespace shoal::sim
