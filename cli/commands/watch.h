// Following one job until it is over: asks twice a second, redraws a bar on a terminal, prints a
// line per news elsewhere, and a line for each warning about the job. Ctrl-C stops the watching,
// never the job. A coordinator that is gone is waited for: jobs survive its restart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/api.h"

namespace shoal::cli {

enum class WatchOutput {
  kPeople,    // bar on a terminal's stderr, else plain lines on stdout
  kMessages,  // the same, plain lines on stderr: stdout is for the result
  kJson,      // the job object, one line per change, on stdout
};

struct WatchOptions {
  WatchOutput output = WatchOutput::kPeople;
  double timeout_s = 0;  // 0: none
  std::string until;     // a phase that ends it, besides the final ones
  double unreachable_max_s = 120;
};

// The last job object seen; the phase in it is final, or the one waited for. kCancelled on Ctrl-C,
// kDeadlineExceeded on timeout.
Result<Json> watch_job(const Api& api, const std::string& job, const WatchOptions& options);

// Events that came after the newest one seen, as lines, the oldest first; `seen` is then the
// newest. The first look finds nothing new.
std::vector<std::string> fresh_warnings(const Json& newest_first, std::optional<double>& seen);

// kExitOk for completed; else says why on stderr and gives kExitJobFailed.
int outcome_of(const Json& job);

}  // namespace shoal::cli
