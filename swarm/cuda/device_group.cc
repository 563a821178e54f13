// See device_group.h.
#include "swarm/cuda/device_group.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "threads/clock.h"

namespace shoal::swarm {
namespace {

// A sum of gradients takes tens of microseconds to milliseconds.
constexpr auto kNap = std::chrono::microseconds(20);

}  // namespace

DeviceGroup::DeviceGroup(std::unique_ptr<CommunicatorLibrary> library, Duration limit)
    : library_(std::move(library)), group_(limit) {}

void DeviceGroup::leave() {
  group_.leave();
  communicator_.reset();
}

Status DeviceGroup::give_up(Status why) {
  leave();
  return why;
}

Status DeviceGroup::form(const GroupView& view, const CommunicatorId& id,
                         const Interrupted& interrupted) {
  leave();
  auto communicator = library_->begin(id, view.rank, view.size);
  if (!communicator) return communicator.error();
  communicator_ = std::move(*communicator);
  group_.form(steady_now(), view);
  return wait("making the communicator", interrupted);
}

Status DeviceGroup::add(float* values, std::size_t count, const Interrupted& interrupted) {
  group_.add(steady_now());
  if (Status begun = communicator_->begin_add(values, count); !begun) return give_up(begun);
  return wait("adding the gradients", interrupted);
}

Status DeviceGroup::wait(const char* what, const Interrupted& interrupted) {
  for (;;) {
    const GroupProgress progress = communicator_->poll();
    const GroupVerdict verdict = group_.heard(steady_now(), progress, interrupted());
    if (verdict == GroupVerdict::kDone) return {};
    if (verdict == GroupVerdict::kFailed) {
      return give_up(Error{Code::kInternal, std::string(what) + ": " + communicator_->trouble(), "",
                           "look at the devices with nvidia-smi"});
    }
    if (verdict != GroupVerdict::kWait) {
      return give_up(
          Error{Code::kUnavailable, std::string(what) + ": " + to_string(verdict), "", ""});
    }
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace shoal::swarm
