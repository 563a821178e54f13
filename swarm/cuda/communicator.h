// What the devices of a replica group add their gradients with: NCCL for GPUs (nccl_library.h), and
// the host itself for tests (communicator_test_util.h). Nothing here blocks; whoever began
// something polls until it is done or gives the communicator up (device_group.h). A communicator
// that failed, or whose operation was given up, is of no use any more but to be destroyed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "swarm/core/replica_group/group_communicator.h"

namespace shoal::swarm {

using CommunicatorId = std::array<std::byte, 128>;  // names one communicator to all its ranks

// One rank's. One thread. The destructor aborts what is under way here; ranks elsewhere are not
// told.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Of what was begun last, which at first is making it.
  virtual GroupProgress poll() = 0;
  // `values`, on the device, become the sum of those of all ranks, the same bits everywhere; after
  // all that was queued there before. Until it is done they are undefined.
  virtual Status begin_add(float* values, std::size_t count) = 0;
  virtual std::string trouble() const = 0;  // after kFailed, in the library's own words
};

// Of one device. One thread.
class CommunicatorLibrary {
 public:
  CommunicatorLibrary() = default;
  virtual ~CommunicatorLibrary() = default;
  CommunicatorLibrary(const CommunicatorLibrary&) = delete;
  CommunicatorLibrary& operator=(const CommunicatorLibrary&) = delete;

  virtual std::int32_t version() const = 0;  // not 0; only equal ones understand each other
  virtual std::string name() const = 0;      // "NCCL 2.28.9"
  virtual Result<CommunicatorId> make_id() = 0;
  // It is there when all ranks of the id began theirs, and poll() says so.
  virtual Result<std::unique_ptr<Communicator>> begin(const CommunicatorId& id, int rank,
                                                      int size) = 0;
};

}  // namespace shoal::swarm
