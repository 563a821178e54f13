// One cgroup (version 2) for each program of a job, beneath a folder that the agent was given
// (--program-cgroup): the kernel bounds its memory and its processes, counts what it left behind,
// and ends all of it at once.
#pragma once

#include <memory>
#include <string>

#include "agent/core/io.h"
#include "agent/host/program_bounds.h"
#include "base/result.h"

namespace shoal::agent {

class ProgramCgroups {
 public:
  // Gives the folder's children memory and pids. kValidation, with the field --program-cgroup: it
  // is no cgroup of version 2, has no such controllers, or the agent may not change it.
  static Result<std::unique_ptr<ProgramCgroups>> open(const std::string& folder,
                                                      const ProgramBounds& bounds);

  // Makes the program's cgroup. The file into which its process writes "0" to enter.
  Result<std::string> make(TrainerId trainer) const;
  // Why the kernel ended it, for people, with the flag; empty: it did not.
  std::string why_ended(TrainerId trainer) const;
  // Ends what is left in it, and deletes it. What hangs in the kernel stays.
  void remove(TrainerId trainer) const;

 private:
  ProgramCgroups(std::string folder, const ProgramBounds& bounds)
      : folder_(std::move(folder)), bounds_(bounds) {}
  std::string group_of(TrainerId trainer) const;

  const std::string folder_;
  const ProgramBounds bounds_;
};

}  // namespace shoal::agent
