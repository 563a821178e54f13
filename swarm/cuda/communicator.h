// What the devices of a replica group add their gradients with: NCCL for GPUs (nccl_library.h), and
// the host itself for tests (communicator_test_util.h). Nothing here blocks; the caller polls until
// the operation is done, or gives the communicator up (device_group.h). A communicator that failed,
// or whose operation was given up, can only be destroyed.
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

// One rank of a communicator. For one thread. The destructor aborts the operation under way here;
// other ranks are not told.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Progress of the operation that was begun last; at first, of creating the communicator.
  virtual GroupProgress poll() = 0;
  // `values`, on the device, become the sum over all ranks, with the same bits everywhere, after
  // all work queued before. They are undefined until it is done.
  virtual Status begin_add(float* values, std::size_t count) = 0;
  virtual std::string trouble() const = 0;  // after kFailed, in the library's own words
};

// The library of one device. For one thread.
class CommunicatorLibrary {
 public:
  CommunicatorLibrary() = default;
  virtual ~CommunicatorLibrary() = default;
  CommunicatorLibrary(const CommunicatorLibrary&) = delete;
  CommunicatorLibrary& operator=(const CommunicatorLibrary&) = delete;

  virtual std::int32_t version() const = 0;  // not 0; only equal ones understand each other
  virtual std::string name() const = 0;      // "NCCL 2.28.9"
  virtual Result<CommunicatorId> make_id() = 0;
  // The communicator is ready when all ranks of the id have begun theirs; poll() tells.
  virtual Result<std::unique_ptr<Communicator>> begin(const CommunicatorId& id, int rank,
                                                      int size) = 0;
};

}  // namespace shoal::swarm
