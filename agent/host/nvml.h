// NVIDIA's management library (NVML), loaded at run time, so that the same binary serves hosts
// without a driver. Our own prototypes keep its header out of the build: the part of nvml.h that is
// used, which is stable since version 11 of CUDA. A look-alike library or a broken driver may hang
// in a call, print, or end its caller, so only the helper process calls this (driver_helper.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/gpu_history.h"

namespace shoal::agent {

// What a GPU is. `number` is that of nvidia-smi and of the driver's list.
struct GpuIdentity {
  std::int32_t code = 0;  // NVML's, of the first question that failed; 0: all were answered
  std::string uuid;       // empty: it does not say
  std::string error;      // why not, in the driver's words
  std::string name;
  std::int64_t memory_total = 0, memory_free = 0;
  std::int32_t capability = 0;  // the major number
};

inline constexpr int kNvmlNoPermission = 4, kNvmlNotFound = 6, kNvmlDriverNotLoaded = 9,
                     kNvmlGpuLost = 15;

class Nvml {
 public:
  struct Driver {
    std::int32_t count = -1;  // of GPUs; -1: this host has no driver, or it failed
    std::string error;        // why it failed
  };

  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const Driver& driver() const { return driver_; }
  GpuIdentity find(unsigned number);      // its UUID
  GpuIdentity describe(unsigned number);  // all of it
  // Figures. From the first reading on, XIDs are collected. `list`: the processes, too, for which
  // NVML holds the driver's lock.
  GpuReading read(unsigned number, bool list);
  // Only the XIDs since the call before: what a GPU that falls off its bus reports is to be had
  // when it answers nothing else.
  std::vector<std::int32_t> take_xids(unsigned number);

 private:
  using Handle = void*;
  struct Calls;
  struct Events {  // of one GPU, so that one that hangs holds up no other
    Handle set = nullptr;
    std::optional<int> failed = {};  // none: not registered yet; 0: it collects
  };

  int open(unsigned number, Handle& device);
  void read_load(Handle device, GpuReading& reading);
  void read_climate(Handle device, GpuReading& reading);
  void read_throttling(Handle device, GpuReading& reading);
  void read_counters(Handle device, GpuReading& reading);
  void collect_xids(unsigned number, Handle device, GpuReading& reading);
  void read_processes(Handle device, GpuReading& reading);
  bool answers(int code, const char* question, GpuReading& reading) const;

  void* library_ = nullptr;
  std::unique_ptr<Calls> calls_;
  Driver driver_;
  bool initialized_ = false;
  std::vector<Events> events_;  // by number
};

}  // namespace shoal::agent
