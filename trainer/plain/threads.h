// The CPU threads of a trainer: how many a model keeps busy, and the environment that lets waiting
// ones sleep. Threads that share a matrix product wait for each other at its end. When it is small,
// or other work wants the cores, they wait longer than they compute, and two are slower than one
// (docs/performance_compute.md, "Threads of a trainer").
#pragma once

#include "job/job_spec.h"

namespace shoal::trainer {

// What one thread computes of the largest product of a microbatch, at the least: about 2 ms.
inline constexpr double kOperationsPerThread = 125e6;

// 1 to `limit`.
int useful_threads(const JobSpec& job, int limit);

// Sets the variables of base/thread_environment.h that are missing; true: some were.
bool complete_thread_environment();

// Gives this process those variables if its parent did not, as when a person runs
// `shoal-trainer bench`. Libraries have read theirs before main() begins, so the process executes
// itself again, once. Call it first in main(), while there is one thread. Returns when nothing was
// missing, or with the old settings if the program cannot be started again: it then computes the
// same, only slower with several threads.
void require_thread_environment(char** argv);

}  // namespace shoal::trainer
