#include "agent/host/device_probe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>

#include <dlfcn.h>

namespace shoal::agent {
namespace {

constexpr int kCpuDevicesMax = 64;
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
  const char* (*error_text)(int) = nullptr;
};
constexpr int kDriverNotLoaded = 9;  // NVML_ERROR_DRIVER_NOT_LOADED

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
         load(library, "nvmlErrorString", nvml.error_text);
}

Error unusable(const std::string& what) {
  return {Code::kUnavailable, what, "--devices", "look at nvidia-smi, or give --devices cpu"};
}

constexpr int kAmpere = 8;  // first major compute capability with bf16

Result<Device> read_gpu(const Nvml& nvml, unsigned index) {
  NvmlDevice handle = nullptr;
  std::array<char, 96> name{};
  NvmlMemory memory{};
  int major = 0, minor = 0;
  const bool ok = nvml.handle(index, &handle) == 0 &&
                  nvml.name(handle, name.data(), name.size() - 1) == 0 &&
                  nvml.memory(handle, &memory) == 0 && nvml.capability(handle, &major, &minor) == 0;
  if (!ok) {
    return unusable("GPU " + std::to_string(index) + " does not answer its driver");
  }
  return Device{static_cast<std::int32_t>(index),
                DeviceKind::kCuda,
                name.data(),
                Bytes(static_cast<std::int64_t>(memory.free)),
                0,
                major >= kAmpere};
}

Result<std::vector<Device>> probe_gpus(const std::string& path) {
  const std::unique_ptr<void, int (*)(void*)> library(
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL),
      [](void* l) { return l == nullptr ? 0 : dlclose(l); });
  Nvml nvml;
  std::vector<Device> devices;
  if (library == nullptr || !load_all(library.get(), nvml)) return devices;
  const int failed = nvml.init();
  if (failed == kDriverNotLoaded) return devices;  // the library alone makes no GPU host
  if (failed != 0) {
    return unusable(std::string("the driver of the GPUs cannot be used: ") +
                    nvml.error_text(failed));
  }
  const std::unique_ptr<const Nvml, void (*)(const Nvml*)> session(
      &nvml, [](const Nvml* n) { n->shutdown(); });
  unsigned count = 0;
  if (nvml.count(&count) != 0) return unusable("the driver does not count its GPUs");
  for (unsigned i = 0; i < count; ++i) {
    Result<Device> device = read_gpu(nvml, i);
    if (!device) return device.error();
    devices.push_back(std::move(device).value());
  }
  return devices;
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

std::int64_t available_memory() {
  std::int64_t available =
      std::strtoll(line_value("/proc/meminfo", "MemAvailable").c_str(), nullptr, 10) * 1024;
  std::int64_t limit = 0;  // of this container; the file says "max" when there is none
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) available = std::min(available, limit);
  return available;
}

std::int64_t usable_memory() {
  return static_cast<std::int64_t>(static_cast<double>(available_memory()) * kCpuMemoryShare);
}

std::vector<Device> cpu_devices(int count) {
  std::string name = line_value("/proc/cpuinfo", "model name");
  if (name.empty()) name = "CPU";
  const std::int64_t memory = usable_memory() / count;
  std::vector<Device> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    devices.push_back({i, DeviceKind::kCpu, name, Bytes(memory), 0, false});
  return devices;
}

}  // namespace

std::vector<Device> reducer_devices() {
  return {{0, DeviceKind::kReducer, "reducer", Bytes(usable_memory()), 0, false}};
}

std::string default_nvml_library() {
  const char* path = std::getenv("SHOAL_NVML_LIB");
  return path != nullptr ? path : "libnvidia-ml.so.1";
}

Result<std::vector<Device>> probe_devices(const std::string& choice,
                                          const std::string& nvml_library) {
  if (choice == "auto") {
    auto gpus = probe_gpus(nvml_library);
    if (!gpus || !gpus->empty()) return gpus;
    return cpu_devices(1);
  }
  if (choice == "cpu") return cpu_devices(1);
  int count = 0;
  const char* end = choice.data() + choice.size();
  const bool numbered = choice.starts_with("cpu:") &&
                        std::from_chars(choice.data() + 4, end, count).ptr == end &&
                        choice.size() > 4;
  if (numbered && count >= 1 && count <= kCpuDevicesMax) return cpu_devices(count);
  return Error{Code::kValidation,
               "must be auto, cpu or cpu:N with N from 1 to 64, got '" + choice + "'", "--devices",
               ""};
}

}  // namespace shoal::agent
