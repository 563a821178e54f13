// One replica of the memory benchmark: the worker of a trainer with libtorch on the CPU and a port
// of its own, in a process of its own, and the part of the coordinator that it needs. It obeys
// words, all members the same ones at the same time, and answers with what it held meanwhile:
//
//   start                    its address, from now on
//   load ADDRESS…            of all members; trains round 1 to its boundary
//   round                    reduces the round, commits it and trains the next one
//   evaluate                 one held-out batch on the anchor, at the boundary
//   checkpoint               writes one to a disk that takes it only when the next round is over
//   join ADDRESS…            the last one, which is no member, takes the state over
//
// Answers are JSON objects on one line: {"address": …}, {"phases": …} or {"error": …}. Each wait
// ends after two minutes.
#pragma once

#include <memory>
#include <string>

#include "base/ids.h"
#include "job/job_spec.h"

namespace shoal::bench {

struct MemorySetup {
  JobSpec spec;              // derived fields are filled
  int members = 2;           // of every round; processes beyond them join
  RoundNumber joins_at = 0;  // the round that the members have committed by then
  std::string folder;
};

class MemoryMember {
 public:
  MemoryMember(MemorySetup setup, int index);
  ~MemoryMember();

  std::string obey(const std::string& command);

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace shoal::bench
