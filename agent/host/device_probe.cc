#include "agent/host/device_probe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string_view>

#include "agent/core/device_memory.h"
#include "agent/host/host_memory.h"
#include "base/wire_text.h"

namespace shoal::agent {
namespace {

constexpr int kCpuDevicesMax = 64;
constexpr std::size_t kDeviceNameMax = 256;

// As a driver or the kernel says it, in characters that the coordinator takes.
std::string device_name(std::string_view name) {
  return valid_text(shown_text(valid_text(name), false), kDeviceNameMax);
}

Error unusable(const std::string& what) {
  return {Code::kUnavailable, what, "--devices", "look at nvidia-smi, or give --devices cpu"};
}

constexpr int kAmpere = 8;  // first major compute capability with bf16

// One GPU as the driver shows it. `number` is nvidia-smi's.
struct Gpu {
  unsigned number = 0;
  std::string uuid;  // empty: it does not say
  Device device;
  std::string silent = {};  // why it cannot be used, as the driver says; empty: it answers
  std::optional<unsigned> place = {};  // in the driver's list; none: its UUID is not there
};

// Which of the GPUs of a host are wanted, in their order.
using Choice = std::function<Result<std::vector<Gpu>>(std::vector<Gpu>)>;

// Asks again with a new helper after a GPU that did not answer ended the one before.
Status reopen(DriverHelper& driver) {
  if (driver.is_open()) return {};
  const auto opened = driver.open();
  return opened.ok() ? Status() : Status(opened.error());
}

// None: this user may not open it.
Result<std::optional<Gpu>> find_gpu(DriverHelper& driver, unsigned place) {
  if (Status open = reopen(driver); !open.ok()) return open.error();
  Gpu gpu{.number = place, .uuid = {}, .device = {.kind = DeviceKind::kCuda}, .place = place};
  const auto found = driver.find(place);
  if (!found.ok()) {
    gpu.silent = found.error().message;
  } else if (found->code == kNvmlNoPermission) {
    return std::optional<Gpu>();
  } else {
    gpu.silent = found->error;
    gpu.uuid = valid_text(found->uuid, kDeviceUuidBytesMax);
  }
  return std::optional(gpu);
}

Status describe(DriverHelper& driver, Gpu& gpu) {
  if (!gpu.silent.empty()) return {};
  if (Status open = reopen(driver); !open.ok()) return open.error();
  const auto described = driver.describe(*gpu.place);
  if (!described.ok()) {
    gpu.silent = described.error().message;
    return {};
  }
  gpu.silent = described->error;
  gpu.device.name = device_name(described->name);
  gpu.device.memory = Bytes(described->memory_free);
  gpu.device.total = Bytes(described->memory_total);
  gpu.device.uuid = gpu.uuid;
  gpu.device.bf16 = described->capability >= kAmpere;
  return {};
}

// Only the chosen ones are asked for more than their names. None: this host has no GPUs.
Result<std::vector<Gpu>> read_gpus(const DriverOptions& options, const Choice& choose) {
  DriverHelper driver(options);
  const auto fails = [](const Error& error) {
    return unusable("the driver of the GPUs cannot be used: " + device_name(error.message));
  };
  const auto count = driver.open();
  if (!count.ok()) return fails(count.error());
  std::vector<Gpu> found;
  for (unsigned i = 0; i < count->value_or(0); ++i) {
    auto gpu = find_gpu(driver, i);
    if (!gpu.ok()) return fails(gpu.error());
    if (*gpu) found.push_back(**std::move(gpu));
  }
  auto chosen = choose(std::move(found));
  if (!chosen.ok()) return chosen;
  for (Gpu& gpu : *chosen) {
    if (Status described = describe(driver, gpu); !described.ok()) return fails(described.error());
  }
  return chosen;
}

std::string name_of(const Gpu& gpu) {
  if (!gpu.place) return gpu.uuid;
  return "GPU " + std::to_string(gpu.number) + (gpu.uuid.empty() ? "" : " (" + gpu.uuid + ")");
}

// Whether `name` is its number, or the beginning of its UUID.
bool is_named(const Gpu& gpu, std::string_view name) {
  return (gpu.place && name == std::to_string(gpu.number)) ||
         (name.starts_with("GPU-") && std::string_view(gpu.uuid).starts_with(name));
}

constexpr const char* kUnlisted = "which does not list it";

// The GPUs of a list such as "0,2" or "GPU-8f6c,GPU-12ab", in its order. A UUID that the driver
// does not list may be that of a GPU that has fallen off its bus, which costs only itself.
Result<std::vector<Gpu>> named_gpus(const std::vector<Gpu>& gpus, std::string_view list,
                                    const std::string& field) {
  std::vector<Gpu> named;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    begin = end + 1;
    const auto fits = [&](const Gpu& gpu) { return is_named(gpu, name); };
    const auto found = std::find_if(gpus.begin(), gpus.end(), fits);
    const auto given = std::find_if(named.begin(), named.end(), fits);
    if (found != gpus.end() && given == named.end() &&
        std::find_if(std::next(found), gpus.end(), fits) == gpus.end()) {
      named.push_back(*found);
      continue;
    }
    if (found == gpus.end() && given == named.end() && name.starts_with("GPU-")) {
      named.push_back({.uuid = std::string(name), .device = {}, .silent = kUnlisted});
      continue;
    }
    const char* const wrong = given != named.end()  ? "' is named twice"
                              : found != gpus.end() ? "' fits several GPUs"
                                                    : "' is no GPU that this user may open";
    return Error{Code::kValidation, "'" + std::string(name) + wrong, field,
                 "`nvidia-smi -L` lists numbers and UUIDs; parts of a GPU (MIG) cannot be named"};
  }
  return named;
}

// Those that answer. A host none of whose GPUs does has a fault of its own.
Result<ProbedDevices> numbered(std::vector<Gpu> gpus) {
  ProbedDevices probed;
  for (Gpu& gpu : gpus) {
    if (!gpu.silent.empty()) {
      probed.silent.push_back(name_of(gpu) + " does not answer its driver (" +
                              device_name(gpu.silent) + ")");
      continue;
    }
    gpu.device.index = static_cast<std::int32_t>(probed.devices.size());
    probed.devices.push_back(std::move(gpu.device));
    probed.gpus.push_back(std::move(gpu.uuid));
  }
  if (probed.devices.empty()) return unusable(probed.silent.front());
  return probed;
}

// The value after "key :" or "key:" of the first such line.
std::string line_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

std::vector<Device> cpu_devices(int count, Bytes declared) {
  std::string name = device_name(line_value("/proc/cpuinfo", "model name"));
  if (name.empty()) name = "CPU";
  const Bytes memory = usable_host_memory(declared, {}, count);
  const Bytes total(whole_memory(memory_levels()).count() / count);
  std::vector<Device> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    devices.push_back({i, DeviceKind::kCpu, name, memory, 0, false, "", total});
  return devices;
}

}  // namespace

Bytes usable_host_memory(Bytes declared, Bytes ours, int count) {
  return Bytes(usable_of_host(room_for(ours, memory_levels()), declared).count() / count);
}

std::vector<Device> reducer_devices(Bytes memory) {
  return {{0, DeviceKind::kReducer, "reducer", usable_host_memory(memory, {}, 1), 0, false}};
}

std::string default_nvml_library() {
  const char* path = std::getenv("SHOAL_NVML_LIB");
  return path != nullptr ? path : "libnvidia-ml.so.1";
}

std::optional<std::string> visible_gpus() {
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  return given == nullptr ? std::nullopt : std::optional<std::string>(given);
}

namespace {

Result<ProbedDevices> probe_visible(const std::optional<std::string>& visible,
                                    const DriverOptions& driver, Bytes memory) {
  if (visible && (visible->empty() || *visible == "-1")) {
    return ProbedDevices{cpu_devices(1, memory)};
  }
  auto gpus = read_gpus(driver, [&](std::vector<Gpu> all) -> Result<std::vector<Gpu>> {
    if (!visible || all.empty()) return all;
    // CUDA counts only what may be opened.
    for (unsigned i = 0; i < all.size(); ++i) all[i].number = i;
    return named_gpus(all, *visible, "CUDA_VISIBLE_DEVICES");
  });
  if (!gpus) return gpus.error();
  if (gpus->empty()) return ProbedDevices{cpu_devices(1, memory)};
  return numbered(*std::move(gpus));
}

Result<ProbedDevices> probe_named(std::string_view list, const DriverOptions& driver) {
  auto gpus = read_gpus(
      driver, [&](const std::vector<Gpu>& all) { return named_gpus(all, list, "--devices"); });
  if (!gpus) return gpus.error();
  return numbered(*std::move(gpus));
}

}  // namespace

Result<ProbedDevices> probe_devices(const std::string& choice,
                                    const std::optional<std::string>& visible,
                                    const DriverOptions& driver, Bytes memory) {
  constexpr std::string_view kGpus = "gpu:";
  if (choice == "auto") return probe_visible(visible, driver, memory);
  if (choice.starts_with(kGpus)) return probe_named(choice.substr(kGpus.size()), driver);
  if (choice == "cpu") return ProbedDevices{cpu_devices(1, memory)};
  int count = 0;
  const char* end = choice.data() + choice.size();
  const bool counted = choice.starts_with("cpu:") &&
                       std::from_chars(choice.data() + 4, end, count).ptr == end &&
                       choice.size() > 4;
  if (counted && count >= 1 && count <= kCpuDevicesMax)
    return ProbedDevices{cpu_devices(count, memory)};
  return Error{Code::kValidation,
               "must be auto, gpu:LIST, cpu or cpu:N with N from 1 to 64, got '" + choice + "'",
               "--devices", "for example gpu:0,2"};
}

}  // namespace shoal::agent
