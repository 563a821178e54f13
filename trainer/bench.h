// `shoal-trainer bench`: tokens per second of inner steps on random text, beside the floating-point
// work they imply and what a plain matrix product reaches in the same process.
#pragma once

#include "job/job_spec.h"

namespace shoal::trainer {

struct BenchOptions {
  ModelSpec model;  // the demo's by default
  std::int64_t batch = 8, steps = 50;
  int threads = 1;
  bool cuda = false;
  bool eager = false;  // without CUDA graphs
  Precision precision = Precision::kFp32;
  bool json = false;
};

int bench(const BenchOptions& options);  // the exit code

}  // namespace shoal::trainer
