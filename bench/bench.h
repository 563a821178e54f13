// The measurements of shoal-bench. Each prints a table for people or, with `json`, one JSON object;
// the result is the exit code. Nothing here asserts a speed: the numbers are for
// docs/outer_step.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::bench {

struct CodecOptions {
  std::int64_t values = 64 << 20;  // fp32 values per pass
  int repeats = 5;
  bool json = false;
};
int run_codec(const CodecOptions& options);

struct AllReduceOptions {
  int processes = 4;
  std::int64_t values = 64 << 20;
  int repeats = 5;  // of each kind, interleaved
  bool json = false;
};
int run_all_reduce(const AllReduceOptions& options);

// Replaces this process by `shoal-trainer bench` from the same folder; returns only on failure.
int run_trainer(const std::vector<std::string>& arguments, bool json);

double median(std::vector<double> values);

}  // namespace shoal::bench
