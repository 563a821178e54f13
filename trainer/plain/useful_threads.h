// How many CPU threads a model keeps busy. Threads that share a matrix product wait for each other
// at its end; when it is small, or other work wants the cores, they wait longer than they compute,
// and two are slower than one (docs/performance_compute.md, "Threads of a trainer").
#pragma once

#include "job/job_spec.h"

namespace shoal::trainer {

// What one thread computes of the largest product of a microbatch, at the least: about 2 ms.
inline constexpr double kOperationsPerThread = 125e6;

// 1 to `limit`.
int useful_threads(const JobSpec& job, int limit);

}  // namespace shoal::trainer
