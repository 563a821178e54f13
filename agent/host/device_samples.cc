#include "agent/host/device_samples.h"

#include <algorithm>
#include <thread>

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "agent/host/device_probe.h"
#include "agent/host/process_table.h"

namespace shoal::agent {
namespace {

// A replica group has one device, which is the first of its GPUs.
std::vector<GpuWatch::Gpu> watched(const HostOptions& options, const std::vector<Device>& devices,
                                   bool idle) {
  std::vector<GpuWatch::Gpu> gpus;
  for (std::size_t i = 0; i < options.gpus.size(); ++i) {
    if (options.gpus[i].empty()) continue;  // a vacant number
    const bool probed = idle && i < devices.size();
    gpus.push_back({options.gpus[i], probed ? devices[i].total - devices[i].memory : Bytes()});
  }
  return gpus;
}

double wanted_share(const HostOptions& options, std::size_t devices) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const double threads = static_cast<double>(std::max(1, options.threads)) *
                         static_cast<double>(std::max<std::size_t>(1, devices));
  return std::clamp(threads / cores, 1.0 / cores, 1.0);
}

}  // namespace

DeviceSamples::DeviceSamples(const HostOptions& options, std::vector<Device> devices,
                             const std::set<pid_t>& left, Note note)
    : devices_(std::move(devices)),
      memory_declared_(options.memory),
      every_(options.sample_every),
      processors_(std::max(options.replica_group, static_cast<int>(devices_.size()))),
      note_(std::move(note)),
      cpu_load_("", wanted_share(options, devices_.size())) {
  if (options.gpus.empty() || options.driver.library.empty()) return;
  gpus_ = std::make_unique<GpuWatch>(options.driver, watched(options, devices_, left.empty()), left,
                                     every_);
  if (!left.empty()) gpus_->wait_for(1, options.driver.answer_limit);
}

void DeviceSamples::add_to(HostMeasured& measured, const std::set<pid_t>& trainers, Instant now) {
  if (now >= read_at_) {
    read_at_ = now + every_;
    read_processors(measured.resident, trainers);
  }
  measured.samples = samples_;
  measured.memory = memory_;
  if (gpus_ == nullptr) return;
  for (DeviceSample& sample : gpus_->samples()) {
    note_answer(sample);
    measured.samples.push_back(std::move(sample));
  }
  for (MeasuredMemory& memory : gpus_->memory()) measured.memory.push_back(std::move(memory));
}

// All processors of a host are one to the kernel.
void DeviceSamples::read_processors(Bytes resident, const std::set<pid_t>& trainers) {
  samples_.clear();
  memory_.clear();
  const bool any = std::ranges::any_of(
      devices_, [](const Device& device) { return device.kind != DeviceKind::kCuda; });
  if (!any) return;
  const std::vector<ProcessEntry> all = all_processes();
  std::set<pid_t> leaders = trainers;
  leaders.insert(getpid());
  std::int64_t own_ticks = 0;
  for (const ProcessEntry& process : begun_by(leaders, all)) own_ticks += process.cpu_ticks;
  const DeviceSample sample = cpu_load_.sample(resident, own_ticks);
  Bytes ours;
  for (const ProcessEntry& process : begun_by(trainers, all)) ours += own_memory(process.id.pid);
  const Bytes memory = usable_host_memory(memory_declared_, ours, processors_);
  for (const Device& device : devices_) {
    if (device.kind == DeviceKind::kCuda) continue;
    memory_.push_back({device.uuid, memory});
    if (device.kind != DeviceKind::kCpu) continue;
    samples_.push_back(sample);
    samples_.back().uuid = device.uuid;
  }
}

// One line when a GPU begins to answer otherwise than before.
void DeviceSamples::note_answer(const DeviceSample& sample) {
  auto& [answer, error] = answers_[sample.uuid];
  const bool first = answer == DeviceAnswer::kUnknown;
  const bool same = answer == sample.answer && error == sample.error;
  answer = sample.answer;
  error = sample.error;
  if (same || (first && answer == DeviceAnswer::kWhole && error.empty())) return;
  if (answer == DeviceAnswer::kWhole) {  // the error names questions that are no fault
    return note_(LogLevel::kInfo,
                 sample.uuid + (error.empty() ? " answers all questions again" : ": " + error));
  }
  std::string text = fmt::format("{} is {}: {}", sample.uuid, to_string(answer), error);
  if (sample.age > Duration())
    text += fmt::format(" (its last values are {} s old)", sample.age.ms() / 1000);
  note_(LogLevel::kWarning, text);
}

}  // namespace shoal::agent
