#include "agent/host/nvml.h"

#include <algorithm>
#include <string_view>

#include <dlfcn.h>

namespace shoal::agent {
namespace {

constexpr int kMissing = 13, kNotSupported = 3, kInvalidArgument = 2;  // NVML_ERROR_…
constexpr double kMilli = 1e-3, kPercent = 1e-2;
constexpr int kTemperatureGpu = 0, kClockSm = 1;
constexpr unsigned long long kXidEvents = 0x8;  // nvmlEventTypeXidCriticalError
constexpr int kEventsMax = 256;                 // that one reading takes
constexpr unsigned kProcessesMax = 1024;
constexpr std::size_t kTextMax = 96;

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
struct Process {  // of nvmlDeviceGetComputeRunningProcesses_v2 and _v3
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type, code;
  union {
    double real;
    unsigned narrow;
    unsigned long long wide;
    long long wide_signed;
    int narrow_signed;
    unsigned short half;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && sizeof(Process) == 24 && sizeof(EventData) == 32);

// NVML_FI_DEV_…: the error counts are those for the life of the card (aggregate), because those
// since the driver was loaded (volatile) forget what a card has had.
enum Field : unsigned {
  kEccCorrected = 5,
  kEccUncorrected = 6,
  kNvlinkCrcFlits = 38,
  kNvlinkCrcData = 45,
  kNvlinkReplays = 52,
  kNvlinkRecoveries = 59,
  kPcieReplays = 94,
  kRemappedCorrectable = 142,
  kRemappedUncorrectable = 143,
  kRemapPending = 144,
  kRemapFailed = 145,
  kRecoveryAction = 230,
};
struct NamedField {
  Field field;
  const char* name;
};
constexpr NamedField kFields[] = {
    {kEccCorrected, "ECC errors"},          {kEccUncorrected, "ECC errors"},
    {kNvlinkCrcFlits, "NVLink errors"},     {kNvlinkCrcData, "NVLink errors"},
    {kNvlinkReplays, "NVLink errors"},      {kNvlinkRecoveries, "NVLink errors"},
    {kPcieReplays, "PCIe replays"},         {kRemappedCorrectable, "row remaps"},
    {kRemappedUncorrectable, "row remaps"}, {kRemapPending, "row remaps"},
    {kRemapFailed, "row remaps"},           {kRecoveryAction, "recovery action"}};

// nvmlClocksEventReason… without gpu_idle, which slows nothing down.
struct NamedBit {
  unsigned long long bit;
  const char* name;
};
constexpr NamedBit kThrottleReasons[] = {{0x2, "applications_clocks_setting"},
                                         {0x4, "sw_power_cap"},
                                         {0x8, "hw_slowdown"},
                                         {0x10, "sync_boost"},
                                         {0x20, "sw_thermal_slowdown"},
                                         {0x40, "hw_thermal_slowdown"},
                                         {0x80, "hw_power_brake_slowdown"},
                                         {0x100, "display_clock_setting"}};

std::int64_t number_of(const FieldValue& value) {
  switch (value.type) {  // nvmlValueType_t
    case 0:
      return static_cast<std::int64_t>(value.value.real);
    case 1:
      return value.value.narrow;
    case 5:
      return value.value.narrow_signed;
    case 6:
      return value.value.half;
    default:
      return value.value.wide_signed;
  }
}

// A library of an older or newer version may lack a symbol.
template <typename... Given, typename... Taken>
int call(int (*function)(Given...), Taken... arguments) {
  return function == nullptr ? kMissing : function(arguments...);
}

}  // namespace

struct Nvml::Calls {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Handle*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  int (*capability)(Handle, int*, int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  // Those below may be missing.
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*power_limit)(Handle, unsigned*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*clock_max)(Handle, int, unsigned*) = nullptr;
  int (*throttling)(Handle, unsigned long long*) = nullptr;
  int (*fields)(Handle, int, FieldValue*) = nullptr;
  int (*processes)(Handle, unsigned*, Process*) = nullptr;
  int (*make_set)(Handle*) = nullptr;
  int (*register_events)(Handle, unsigned long long, Handle) = nullptr;
  int (*wait)(Handle, EventData*, unsigned) = nullptr;

  std::string text(int code) const {
    const char* text = code == kMissing || error_text == nullptr ? nullptr : error_text(code);
    return text != nullptr ? text : "the driver's library lacks the function";
  }
};

Nvml::Nvml(const std::string& library)
    : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)), calls_(std::make_unique<Calls>()) {
  if (library_ == nullptr) return;
  const auto load = [this](auto& function, std::initializer_list<const char*> symbols) {
    for (const char* symbol : symbols) {
      if (function != nullptr) break;
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library_, symbol));
    }
    return function != nullptr;
  };
  Calls& c = *calls_;
  const bool usable = load(c.init, {"nvmlInit_v2"}) && load(c.shutdown, {"nvmlShutdown"}) &&
                      load(c.count, {"nvmlDeviceGetCount_v2"}) &&
                      load(c.handle, {"nvmlDeviceGetHandleByIndex_v2"}) &&
                      load(c.uuid, {"nvmlDeviceGetUUID"}) && load(c.name, {"nvmlDeviceGetName"}) &&
                      load(c.memory, {"nvmlDeviceGetMemoryInfo"}) &&
                      load(c.capability, {"nvmlDeviceGetCudaComputeCapability"}) &&
                      load(c.error_text, {"nvmlErrorString"});
  if (!usable) return;
  load(c.utilization, {"nvmlDeviceGetUtilizationRates"});
  load(c.temperature, {"nvmlDeviceGetTemperature"});
  load(c.power, {"nvmlDeviceGetPowerUsage"});
  load(c.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  load(c.clock, {"nvmlDeviceGetClockInfo"});
  load(c.clock_max, {"nvmlDeviceGetMaxClockInfo"});
  load(c.throttling,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  load(c.fields, {"nvmlDeviceGetFieldValues"});
  load(c.processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  load(c.make_set, {"nvmlEventSetCreate"});
  load(c.register_events, {"nvmlDeviceRegisterEvents"});
  load(c.wait, {"nvmlEventSetWait_v2"});
  const int failed = c.init();
  if (failed == kNvmlDriverNotLoaded) return;  // the library alone makes no GPU host
  initialized_ = failed == 0;
  unsigned count = 0;
  if (!initialized_) {
    driver_.error = c.text(failed);
  } else if (const int uncounted = c.count(&count); uncounted != 0) {
    driver_.error = "it does not count its GPUs: " + c.text(uncounted);
  } else {
    driver_.count = static_cast<std::int32_t>(count);
  }
}

Nvml::~Nvml() {
  if (initialized_) calls_->shutdown();
  if (library_ != nullptr) dlclose(library_);
}

// ---- what a GPU is

int Nvml::open(unsigned number, Handle& device) {
  return initialized_ ? calls_->handle(number, &device) : kNvmlDriverNotLoaded;
}

GpuIdentity Nvml::find(unsigned number) {
  GpuIdentity gpu;
  Handle device = nullptr;
  std::array<char, kTextMax> uuid{};
  gpu.code = open(number, device);
  if (gpu.code == 0) gpu.code = calls_->uuid(device, uuid.data(), uuid.size() - 1);
  if (gpu.code != 0) gpu.error = calls_->text(gpu.code);
  gpu.uuid = uuid.data();
  return gpu;
}

GpuIdentity Nvml::describe(unsigned number) {
  GpuIdentity gpu = find(number);
  if (gpu.code != 0) return gpu;
  Handle device = nullptr;
  std::array<char, kTextMax> name{};
  Memory memory{};
  int major = 0, minor = 0;
  gpu.code = open(number, device);
  if (gpu.code == 0) gpu.code = calls_->name(device, name.data(), name.size() - 1);
  if (gpu.code == 0) gpu.code = calls_->memory(device, &memory);
  if (gpu.code == 0) gpu.code = calls_->capability(device, &major, &minor);
  if (gpu.code != 0) gpu.error = calls_->text(gpu.code);
  gpu.name = name.data();
  gpu.memory_total = static_cast<std::int64_t>(memory.total);
  gpu.memory_free = static_cast<std::int64_t>(memory.free);
  gpu.capability = major;
  return gpu;
}

// ---- how it is

// A question that this kind of GPU does not have is answered: its value is 0.
bool Nvml::answers(int code, const char* question, GpuReading& reading) const {
  GpuQuestion& asked = reading.questions.emplace_back(GpuQuestion{question, {}});
  if (code == 0 || code == kNotSupported) return true;
  if (code == kNvmlGpuLost) reading.code = code;  // a library may still know its UUID
  asked.error = calls_->text(code);
  if (reading.error.empty()) reading.error = asked.name + ": " + asked.error;
  return false;
}

GpuReading Nvml::read(unsigned number, bool list) {
  GpuReading reading;
  const GpuIdentity gpu = find(number);
  reading.code = gpu.code;
  reading.uuid = gpu.uuid;
  reading.error = gpu.error;
  Handle device = nullptr;
  if (gpu.code != 0 || open(number, device) != 0) return reading;
  read_load(device, reading);
  read_climate(device, reading);
  read_counters(device, reading);
  collect_xids(number, device, reading);
  if (list) read_processes(device, reading);
  return reading;
}

void Nvml::read_load(Handle device, GpuReading& reading) {
  Utilization load{};
  reading.has_load = answers(call(calls_->utilization, device, &load), "utilization", reading);
  reading.busy = load.gpu * kPercent;
  Memory memory{};
  reading.has_memory = answers(calls_->memory(device, &memory), "memory", reading);
  reading.memory_total = static_cast<std::int64_t>(memory.total);
  reading.memory_used =
      static_cast<std::int64_t>(memory.total - std::min(memory.free, memory.total));
}

void Nvml::read_climate(Handle device, GpuReading& reading) {
  unsigned celsius = 0, milliwatts = 0, limit = 0, mhz = 0, mhz_max = 0;
  const Calls& c = *calls_;
  reading.has_climate =
      answers(call(c.temperature, device, kTemperatureGpu, &celsius), "temperature", reading) &&
      answers(call(c.power, device, &milliwatts), "power", reading) &&
      answers(call(c.power_limit, device, &limit), "power limit", reading) &&
      answers(call(c.clock, device, kClockSm, &mhz), "clock", reading) &&
      answers(call(c.clock_max, device, kClockSm, &mhz_max), "highest clock", reading);
  reading.celsius = celsius;
  reading.watts = milliwatts * kMilli;
  reading.watts_limit = limit * kMilli;
  reading.mhz = mhz;
  reading.mhz_max = mhz_max;
  if (reading.has_climate) read_throttling(device, reading);
}

void Nvml::read_throttling(Handle device, GpuReading& reading) {
  unsigned long long reasons = 0;
  reading.has_climate =
      answers(call(calls_->throttling, device, &reasons), "throttle reasons", reading);
  for (const NamedBit& reason : kThrottleReasons) {
    if ((reasons & reason.bit) != 0) reading.throttled.emplace_back(reason.name);
  }
}

void Nvml::read_counters(Handle device, GpuReading& reading) {
  std::array<FieldValue, std::size(kFields)> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i].field = kFields[i].field;
  reading.has_counters =
      answers(call(calls_->fields, device, static_cast<int>(values.size()), values.data()),
              "error counts", reading);
  if (!reading.has_counters) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const FieldValue& value = values[i];
    const bool known = value.code != kInvalidArgument;  // by this version of the driver
    if (known && !answers(value.code, kFields[i].name, reading)) reading.has_counters = false;
    const std::int64_t number = value.code == 0 ? number_of(value) : 0;
    switch (kFields[i].field) {
      case kEccCorrected:
        reading.ecc_corrected = number;
        break;
      case kEccUncorrected:
        reading.ecc_uncorrected = number;
        break;
      case kNvlinkCrcFlits:
      case kNvlinkCrcData:
      case kNvlinkReplays:
      case kNvlinkRecoveries:
        reading.nvlink_errors += number;
        break;
      case kPcieReplays:
        reading.pcie_replays = number;
        break;
      case kRemappedCorrectable:
      case kRemappedUncorrectable:
        reading.rows_remapped += number;
        break;
      case kRemapPending:
        reading.remap_pending = number != 0;
        break;
      case kRemapFailed:
        reading.remap_failed = number != 0;
        break;
      case kRecoveryAction:
        reading.recovery = static_cast<std::int32_t>(number);
        break;
    }
  }
}

void Nvml::collect_xids(unsigned number, Handle device, GpuReading& reading) {
  if (number >= events_.size()) events_.resize(number + 1);
  Events& events = events_[number];
  if (!events.failed) {
    events.failed = call(calls_->make_set, &events.set);
    if (events.failed == 0)
      events.failed = call(calls_->register_events, device, kXidEvents, events.set);
  }
  answers(*events.failed, "XID events", reading);
}

std::vector<std::int32_t> Nvml::take_xids(unsigned number) {
  std::vector<std::int32_t> xids;
  if (number >= events_.size() || events_[number].failed != 0) return xids;
  EventData event{};
  for (int i = 0; i < kEventsMax; ++i) {
    if (call(calls_->wait, events_[number].set, &event, 0u) != 0) break;
    if (event.type == kXidEvents) xids.push_back(static_cast<std::int32_t>(event.data));
  }
  return xids;
}

// One that cannot be listed is not an error: containers and MIG may forbid it.
void Nvml::read_processes(Handle device, GpuReading& reading) {
  std::vector<Process> processes(kProcessesMax);
  unsigned count = kProcessesMax;
  if (call(calls_->processes, device, &count, processes.data()) != 0) return;
  reading.listed = true;
  processes.resize(std::min(count, kProcessesMax));
  for (const Process& process : processes) {
    const bool known = process.used != ~0ull;  // NVML_VALUE_NOT_AVAILABLE
    if (known) {
      reading.processes.push_back({process.pid, static_cast<std::int64_t>(process.used)});
    } else {
      reading.listed = false;
    }
  }
}

}  // namespace shoal::agent
