// Drives one end of a replica group's communicator (swarm/core/replica_group/group_communicator.h):
// makes it for a generation of the replica group, adds with it, gives it up. Both waits end within
// the limit, and at once when `interrupted` says that the replica group has moved on. Whoever gets
// an error has no communicator any more, and what was to be added is undefined. One thread.
#pragma once

#include <functional>
#include <memory>

#include "swarm/cuda/communicator.h"

namespace shoal::swarm {

class DeviceGroup {
 public:
  static constexpr Duration kLimit = seconds(60);

  explicit DeviceGroup(std::unique_ptr<CommunicatorLibrary> library, Duration limit = kLimit);

  std::int32_t version() const { return library_->version(); }
  std::string name() const { return library_->name(); }
  Result<CommunicatorId> make_id() { return library_->make_id(); }
  bool ready(std::int32_t generation) const { return group_.ready(generation); }

  using Interrupted = std::function<bool()>;
  // Instead of the one before. kUnavailable: late or interrupted; kInternal: what the library says.
  Status form(const GroupView& view, const CommunicatorId& id, const Interrupted& interrupted);
  Status add(float* values, std::size_t count, const Interrupted& interrupted);
  void leave();

 private:
  Status wait(const char* what, const Interrupted& interrupted);
  Status give_up(Status why);

  const std::unique_ptr<CommunicatorLibrary> library_;
  GroupCommunicator group_;
  std::unique_ptr<Communicator> communicator_;  // null: group_ is in kNone
};

}  // namespace shoal::swarm
