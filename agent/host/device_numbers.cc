#include "agent/host/device_numbers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/process_id.h"

namespace shoal::agent {
namespace {

// By UUID.
std::map<std::string, std::int32_t> numbers_of(const Roster& roster) {
  std::map<std::string, std::int32_t> numbers;
  if (roster.boot != boot_id()) return numbers;
  for (const RosterEntry& entry : roster.trainers) {
    const bool known = entry.gpus && !entry.gpus->empty() && entry.device >= 0 &&
                       entry.device < static_cast<std::int32_t>(kDevicesMax);
    if (known && process_with(entry.process.pid) == entry.process)
      numbers.emplace(*entry.gpus, entry.device);
  }
  return numbers;
}

// The position in `gpus` for each number; none: it is vacant.
std::vector<std::optional<std::size_t>> placed(const std::vector<std::string>& gpus,
                                               const std::map<std::string, std::int32_t>& kept) {
  std::vector<std::optional<std::size_t>> order(gpus.size());
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto known = kept.find(gpus[i]);
    const std::size_t number = known == kept.end() ? 0 : static_cast<std::size_t>(known->second);
    if (known != kept.end() && number >= order.size()) order.resize(number + 1);
    if (known == kept.end() || order[number]) {
      others.push_back(i);
    } else {
      order[number] = i;
    }
  }
  for (const std::size_t i : others) *std::ranges::find(order, std::optional<std::size_t>()) = i;
  return order;
}

}  // namespace

void keep_numbers(HostOptions& options, const Roster& roster) {
  std::vector<Device>& devices = options.core.devices;
  if (options.replica_group > 1 || options.gpus.size() != devices.size()) return;
  std::vector<Device> numbered;
  std::vector<std::string> gpus;
  for (const std::optional<std::size_t>& position : placed(options.gpus, numbers_of(roster))) {
    const auto number = static_cast<std::int32_t>(numbered.size());
    Device& device = numbered.emplace_back();
    device.kind = DeviceKind::kCuda;
    if (position) device = std::move(devices[*position]);
    device.index = number;
    gpus.push_back(position ? options.gpus[*position] : std::string());
    if (!position) options.core.vacant.push_back(number);
  }
  devices = std::move(numbered);
  options.gpus = std::move(gpus);
}

}  // namespace shoal::agent
