#include "agent/host/device_probe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string_view>

#include <dlfcn.h>

#include "agent/host/host_memory.h"
#include "base/wire_text.h"

namespace shoal::agent {
namespace {

constexpr int kCpuDevicesMax = 64;
constexpr std::size_t kDeviceNameMax = 256;
constexpr double kCpuMemoryShare = 0.8;  // of what is available; the rest is for everybody else

// The part of NVML's interface that is used (nvml.h, version 11 and later; stable since version 5).
struct NvmlMemory {
  unsigned long long total, free, used;
};
using NvmlDevice = void*;
struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*capability)(NvmlDevice, int*, int*) = nullptr;
  int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  const char* (*error_text)(int) = nullptr;
};
constexpr int kNoPermission = 4, kDriverNotLoaded = 9;  // NVML_ERROR_…

// As a driver or the kernel says it, in characters that the coordinator takes.
std::string device_name(std::string_view name) {
  return valid_text(shown_text(valid_text(name), false), kDeviceNameMax);
}

template <typename Function>
bool load(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

bool load_all(void* library, Nvml& nvml) {
  return load(library, "nvmlInit_v2", nvml.init) && load(library, "nvmlShutdown", nvml.shutdown) &&
         load(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) &&
         load(library, "nvmlDeviceGetName", nvml.name) &&
         load(library, "nvmlDeviceGetMemoryInfo", nvml.memory) &&
         load(library, "nvmlDeviceGetCudaComputeCapability", nvml.capability) &&
         load(library, "nvmlDeviceGetUUID", nvml.uuid) &&
         load(library, "nvmlErrorString", nvml.error_text);
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
  NvmlDevice handle = nullptr;
};

// Which of the GPUs of a host are wanted, in their order.
using Choice = std::function<Result<std::vector<Gpu>>(std::vector<Gpu>)>;

// None: this user may not open it.
std::optional<Gpu> find_gpu(const Nvml& nvml, unsigned number) {
  Gpu gpu{.number = number, .uuid = {}, .device = {.kind = DeviceKind::kCuda}};
  const int opened = nvml.handle(number, &gpu.handle);
  if (opened == kNoPermission) return std::nullopt;
  std::array<char, 96> uuid{};
  const int failed = opened != 0 ? opened : nvml.uuid(gpu.handle, uuid.data(), uuid.size() - 1);
  if (failed != 0) gpu.silent = nvml.error_text(failed);
  gpu.uuid = uuid.data();
  return gpu;
}

void describe(const Nvml& nvml, Gpu& gpu) {
  if (!gpu.silent.empty()) return;
  std::array<char, 96> name{};
  NvmlMemory memory{};
  int major = 0, minor = 0;
  int failed = nvml.name(gpu.handle, name.data(), name.size() - 1);
  if (failed == 0) failed = nvml.memory(gpu.handle, &memory);
  if (failed == 0) failed = nvml.capability(gpu.handle, &major, &minor);
  if (failed != 0) gpu.silent = nvml.error_text(failed);
  gpu.device.name = device_name(name.data());
  gpu.device.memory = Bytes(static_cast<std::int64_t>(memory.free));
  gpu.device.total = Bytes(static_cast<std::int64_t>(memory.total));
  gpu.device.uuid = gpu.uuid;
  gpu.device.bf16 = major >= kAmpere;
}

// Only the chosen ones are asked for more than their names. None: this host has no GPUs.
Result<std::vector<Gpu>> read_gpus(const std::string& path, const Choice& choose) {
  const std::unique_ptr<void, int (*)(void*)> library(
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL),
      [](void* l) { return l == nullptr ? 0 : dlclose(l); });
  Nvml nvml;
  if (library == nullptr || !load_all(library.get(), nvml)) return choose({});
  const int failed = nvml.init();
  if (failed == kDriverNotLoaded) return choose({});  // the library alone makes no GPU host
  if (failed != 0) {
    return unusable(std::string("the driver of the GPUs cannot be used: ") +
                    nvml.error_text(failed));
  }
  const std::unique_ptr<const Nvml, void (*)(const Nvml*)> session(
      &nvml, [](const Nvml* n) { n->shutdown(); });
  unsigned count = 0;
  if (nvml.count(&count) != 0) return unusable("the driver does not count its GPUs");
  std::vector<Gpu> found;
  for (unsigned i = 0; i < count; ++i) {
    if (auto gpu = find_gpu(nvml, i)) found.push_back(*std::move(gpu));
  }
  auto chosen = choose(std::move(found));
  if (chosen.ok()) {
    for (Gpu& gpu : *chosen) describe(nvml, gpu);
  }
  return chosen;
}

std::string name_of(const Gpu& gpu) {
  return "GPU " + std::to_string(gpu.number) + (gpu.uuid.empty() ? "" : " (" + gpu.uuid + ")");
}

// Whether `name` is its number, or the beginning of its UUID.
bool is_named(const Gpu& gpu, std::string_view name) {
  return name == std::to_string(gpu.number) ||
         (name.starts_with("GPU-") && std::string_view(gpu.uuid).starts_with(name));
}

// The GPUs of a list such as "0,2" or "GPU-8f6c,GPU-12ab", in its order.
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

// What CPU devices take together. `declared` 0: what the operator leaves to this program.
std::int64_t usable_memory(Bytes declared) {
  const auto level = tightest(memory_levels());
  const Bytes free = level ? level->free() : Bytes();
  if (declared > Bytes()) return std::min(declared, free).count();
  return static_cast<std::int64_t>(static_cast<double>(free.count()) * kCpuMemoryShare);
}

std::vector<Device> cpu_devices(int count, Bytes declared) {
  std::string name = device_name(line_value("/proc/cpuinfo", "model name"));
  if (name.empty()) name = "CPU";
  const std::int64_t memory = usable_memory(declared) / count;
  const Bytes total(whole_memory(memory_levels()).count() / count);
  std::vector<Device> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    devices.push_back({i, DeviceKind::kCpu, name, Bytes(memory), 0, false, "", total});
  return devices;
}

}  // namespace

std::vector<Device> reducer_devices(Bytes memory) {
  return {{0, DeviceKind::kReducer, "reducer", Bytes(usable_memory(memory)), 0, false}};
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
                                    const std::string& nvml_library, Bytes memory) {
  if (visible && (visible->empty() || *visible == "-1")) {
    return ProbedDevices{cpu_devices(1, memory)};
  }
  auto gpus = read_gpus(nvml_library, [&](std::vector<Gpu> all) -> Result<std::vector<Gpu>> {
    if (!visible || all.empty()) return all;
    // CUDA counts only what may be opened.
    for (unsigned i = 0; i < all.size(); ++i) all[i].number = i;
    return named_gpus(all, *visible, "CUDA_VISIBLE_DEVICES");
  });
  if (!gpus) return gpus.error();
  if (gpus->empty()) return ProbedDevices{cpu_devices(1, memory)};
  return numbered(*std::move(gpus));
}

Result<ProbedDevices> probe_named(std::string_view list, const std::string& nvml_library) {
  auto gpus = read_gpus(nvml_library, [&](const std::vector<Gpu>& all) {
    return named_gpus(all, list, "--devices");
  });
  if (!gpus) return gpus.error();
  return numbered(*std::move(gpus));
}

}  // namespace

Result<ProbedDevices> probe_devices(const std::string& choice,
                                    const std::optional<std::string>& visible,
                                    const std::string& nvml_library, Bytes memory) {
  constexpr std::string_view kGpus = "gpu:";
  if (choice == "auto") return probe_visible(visible, nvml_library, memory);
  if (choice.starts_with(kGpus)) return probe_named(choice.substr(kGpus.size()), nvml_library);
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
