// What the environment of a process that computes on CPU threads says before its libraries load.
//
// Two pools of threads take turns there: OpenMP's for what libtorch does by itself, and OpenBLAS's
// own (libopenblas0-pthread) for matrix products. By default the threads of each keep spinning
// for a while after their work, on the cores that the other pool needs, and two threads are slower
// than one. Threads that sleep at once leave the cores to the other pool, to further trainers and
// to whatever else runs on the host. Both libraries read this once, when they are loaded. What an
// operator has set stays.
#pragma once

#include <array>

namespace shoal {

struct EnvironmentEntry {
  const char* name;
  const char* value;
};

inline constexpr std::array<EnvironmentEntry, 2> kThreadEnvironment = {{
    {"OMP_WAIT_POLICY", "PASSIVE"},     // any OpenMP runtime
    {"OPENBLAS_THREAD_TIMEOUT", "20"},  // spins for 2^20 ticks of the processor, not 2^26
}};

}  // namespace shoal
