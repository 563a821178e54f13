// What one program of a job may take of its host: memory, processes and disk. A cgroup of its own
// bounds memory and processes where the operator gives the agent a part of the cgroup tree
// (--program-cgroup); else the agent looks every few seconds and kills a program that takes more.
// The disk is looked at in either case.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace shoal::agent {

inline constexpr const char* kMemoryFlag = "--program-memory-gib";
inline constexpr const char* kProcessesFlag = "--program-processes";
inline constexpr const char* kDiskFlag = "--program-disk-gib";
inline constexpr const char* kCgroupFlag = "--program-cgroup";

struct ProgramBounds {
  Bytes memory = mebibytes(std::int64_t{1} << 30);  // as good as none
  std::int64_t processes = 4096;                    // threads count
  Bytes disk = mebibytes(std::int64_t{1} << 30);    // its own folder, and what it hands over
};

// Nine tenths of the host's memory, or of the smallest cgroup around this process, and of the file
// system of `folder`, shared by `programs` that
// run at a time.
ProgramBounds usual_bounds(const std::string& folder, std::size_t programs);

// What of a program exceeds its bounds, for people, with the flag; empty: nothing.
std::string over_memory(Bytes used, const ProgramBounds& bounds);
std::string over_processes(std::int64_t count, const ProgramBounds& bounds);
std::string over_disk(Bytes used, const ProgramBounds& bounds);

}  // namespace shoal::agent
