// What an agent tells of its devices with each HostMeasured: samples, and the memory that replicas
// may take. Processors are read every HostOptions::sample_every by the caller's thread, GPUs by a
// thread of their own (gpu_watch.h).
//
// One thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "agent/core/io.h"
#include "agent/host/cpu_load.h"
#include "agent/host/gpu_watch.h"
#include "agent/host/host_options.h"
#include "base/log_lines.h"

namespace shoal::agent {

class DeviceSamples {
 public:
  using Note = std::function<void(LogLevel, const std::string&)>;  // for people

  // devices: with their UUIDs. left: trainers of an earlier start of this agent. Memory that they
  // hold is not of others, so this waits until the driver has said whose it is, at most its limit.
  DeviceSamples(const HostOptions& options, std::vector<Device> devices,
                const std::set<pid_t>& left, Note note);

  // trainers: processes that this agent started or has adopted.
  void add_to(HostMeasured& measured, const std::set<pid_t>& trainers, Instant now);

 private:
  void read_processors(Bytes resident, const std::set<pid_t>& trainers);
  void note_answer(const DeviceSample& sample);

  const std::vector<Device> devices_;
  const Bytes memory_declared_;
  const Duration every_;
  const int processors_;  // devices that share the memory of the host
  const Note note_;
  CpuLoad cpu_load_;
  Instant read_at_;                     // the next time
  std::vector<DeviceSample> samples_;   // of processors, the newest
  std::vector<MeasuredMemory> memory_;  // the same
  std::map<std::string, std::pair<DeviceAnswer, std::string>> answers_;  // of GPUs, with the error
  std::unique_ptr<GpuWatch> gpus_;                                       // null: it has none
};

}  // namespace shoal::agent
