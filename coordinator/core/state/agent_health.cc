#include "coordinator/core/state/agent_health.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace shoal::coordinator {
namespace {

constexpr std::size_t kToldMax = 4;  // devices in the reason; the others are counted

std::optional<DeviceTroubleKind> trouble_of(DeviceAnswer answer) {
  switch (answer) {
    case DeviceAnswer::kLost:
      return DeviceTroubleKind::kLost;
    case DeviceAnswer::kSilent:
      return DeviceTroubleKind::kSilent;
    case DeviceAnswer::kPartial:
      return DeviceTroubleKind::kPartial;
    case DeviceAnswer::kUnknown:
    case DeviceAnswer::kWhole:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string uuid_of(const std::vector<Device>& devices, std::int32_t index) {
  const auto device = std::ranges::find(devices, index, &Device::index);
  return device == devices.end() ? "" : device->uuid;
}

std::int32_t index_of(const std::vector<Device>& devices, const std::string& uuid) {
  const auto device = std::ranges::find(devices, uuid, &Device::uuid);
  return device == devices.end() ? -1 : device->index;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::vector<DeviceTrouble> troubles_of(const AgentSigns& signs) {
  std::vector<DeviceTrouble> all;
  for (const DeviceRefusal& one : signs.refusals) {
    if (one.kind == DeviceRefusalKind::kMemory) continue;
    const std::string uuid = one.uuid.empty() ? uuid_of(signs.devices, one.device) : one.uuid;
    all.push_back({one.device, uuid, DeviceTroubleKind::kCordoned, joined(one.reasons)});
  }
  for (const DeviceFailure& one : signs.failures) {
    all.push_back({one.device, uuid_of(signs.devices, one.device), DeviceTroubleKind::kTrainerFails,
                   one.reason});
  }
  for (const DeviceSample& one : signs.samples) {
    if (const auto trouble = trouble_of(one.answer))
      all.push_back({index_of(signs.devices, one.uuid), one.uuid, *trouble, one.error});
  }
  std::ranges::stable_sort(all, {}, &DeviceTrouble::trouble);
  return all;
}

std::string sentence(const DeviceTrouble& trouble) {
  const std::string device =
      trouble.device < 0 ? trouble.uuid : "device " + std::to_string(trouble.device);
  const std::string reason = trouble.reason.empty() ? "" : ": " + trouble.reason;
  switch (trouble.trouble) {
    case DeviceTroubleKind::kCordoned:
      return device + " is cordoned" + reason;
    case DeviceTroubleKind::kTrainerFails:
      return "the trainer of " + device + " does not start" + reason;
    case DeviceTroubleKind::kLost:
      return device + " is lost" + reason;
    case DeviceTroubleKind::kSilent:
      return "the driver of " + device + " does not answer" + reason;
    case DeviceTroubleKind::kPartial:
      return "the driver of " + device + " answers in part" + reason;
  }
  return {};
}

// One sentence for each device: what it was cordoned for is also what its driver says.
std::vector<std::string> sentences(const std::vector<DeviceTrouble>& troubles) {
  std::vector<std::string> all;
  std::vector<std::pair<std::int32_t, std::string>> told;
  for (const DeviceTrouble& trouble : troubles) {
    std::pair key(trouble.device, trouble.uuid);
    if (std::ranges::count(told, key) > 0) continue;
    told.push_back(std::move(key));
    if (told.size() <= kToldMax) all.push_back(sentence(trouble));
  }
  if (told.size() > kToldMax)
    all.push_back(std::to_string(told.size() - kToldMax) + " more devices are in trouble");
  return all;
}

}  // namespace

AgentHealth health_of(const AgentSigns& signs) {
  AgentHealth known{.health = Health::kRed, .reason = {}, .troubles = troubles_of(signs)};
  if (!signs.connected) {
    known.reason = "it has no connection to the coordinator";
    return known;
  }
  std::vector<std::string> reasons;
  if (signs.late) reasons.emplace_back("its heartbeat is late");
  std::ranges::copy(signs.slow, std::back_inserter(reasons));
  std::ranges::copy(sentences(known.troubles), std::back_inserter(reasons));
  known.health = reasons.empty() ? Health::kGreen : Health::kYellow;
  known.reason = joined(reasons);
  return known;
}

}  // namespace shoal::coordinator
