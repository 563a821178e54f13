// Memory that an agent declares for a device: its total less what processes other than this agent's
// trainers hold. It rises and falls with them. Trainers of this agent do not lower it, so an agent
// that restarts while its trainers live declares what it declared before.
#pragma once

#include <optional>

#include "base/time.h"
#include "base/units.h"

namespace shoal::agent {

// Whether the coordinator is told: a change by at least 1/64 of the total; of what was told where
// the total is not known.
bool is_news(Bytes told, Bytes now, Bytes total);

// What processors give. room: what is free, and what the trainers of this agent hold. declared: by
// the operator, as far as there is room; 0: four fifths of the room, the rest is for other
// programs.
Bytes usable_of_host(Bytes room, Bytes declared);

// Splits the used memory of a GPU between this agent's trainers and other processes. The driver's
// list of processes says whose it is; reading it takes the driver's lock, so it is read at most
// once a minute, and only if the used memory has changed since. In between, changes are counted as
// the trainers'. A container may see no process of its GPUs: then what was used when the agent
// started stays that of others.
class GpuMemory {
 public:
  // elsewhere: used when no trainer of this agent ran yet.
  explicit GpuMemory(Bytes elsewhere) : elsewhere_(elsewhere) {}

  // Whether the next reading should list the processes.
  bool wants_list(Instant now) const;

  // ours: of this agent's trainers by the list; none: it was not read, or names no process.
  // listed: it was asked for.
  void take(Instant now, Bytes total, Bytes used, bool listed, std::optional<Bytes> ours);

  Bytes used_here() const { return used_ - elsewhere_; }
  Bytes used_elsewhere() const { return elsewhere_; }
  Bytes usable() const { return total_ - elsewhere_; }

 private:
  Bytes elsewhere_, total_, used_;
  Bytes used_at_list_;
  std::optional<Instant> listed_at_;
};

}  // namespace shoal::agent
