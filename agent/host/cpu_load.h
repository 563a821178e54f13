// What the processors of this host do, as a sample for the heartbeats (messages/device.h). Figures
// are rounded so that a host at rest has nothing new to tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "messages/device.h"

namespace shoal::agent {

class CpuLoad {
 public:
  // `root` stands before /proc and /sys; tests name a folder.
  // `wanted`: the share of the host's processors that this agent's devices use when they train.
  explicit CpuLoad(std::string root = "", double wanted = 1)
      : root_(std::move(root)), wanted_(wanted) {}

  // Load since the call before (none at the first call); memory now, of which `here` is this
  // agent's; the hottest thermal zone, where the kernel shows one. What cannot be read is not
  // there. own_ticks: that processes of this agent have used so far; what they use less than
  // before, because some have ended, counts as nothing. Others take time from this agent as far
  // as idle processors do not suffice for what it wants.
  DeviceSample sample(Bytes here, std::int64_t own_ticks = 0);

 private:
  struct Ticks {
    std::int64_t all = 0, idle = 0, stolen = 0;
    std::int64_t own = 0;
  };
  std::optional<Ticks> read_ticks() const;
  double hottest() const;  // degrees Celsius; 0: not known

  const std::string root_;
  const double wanted_;
  std::optional<Ticks> before_;
};

}  // namespace shoal::agent
