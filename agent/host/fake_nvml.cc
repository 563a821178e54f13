// A stand-in for NVIDIA's management library, for tests and scripts: SHOAL_NVML_LIB names it. It
// has three GPUs. The second one is too old for bf16, the third one belongs to another user.
// $FAKE_NVML_INIT is what the library's start returns. $FAKE_NVML_SILENT=CALL:N makes GPU N fail
// this call: handle, uuid, name, memory or capability.
//
// With $FAKE_NVML_FOLDER the GPUs are the folders in it, in the order of their names, as they are
// when the library starts. Files in the folder of a GPU say how it is, and may change at any time:
//   uuid, name, capability, total, used     (GPU-FOLDER, NVIDIA H200, 9, 150000000000, 1000000000)
//   busy, temperature, power, power_limit, clock, clock_max, throttle        (0, 30, 70000, …)
//   a number of a field of nvmlDeviceGetFieldValues, such as 230             (0)
//   processes   lines "PID BYTES"
//   xid         XIDs; the file is removed when they are reported (rename a complete one into place)
//   gone        it has fallen off the bus: it is lost, and not listed by the next start
//   hang        seconds that each call about it takes
//   abort       a call about it ends the caller
//   partial     calls that fail: uuid, memory, utilization, temperature, power, clock, throttle,
//               fields, processes, events
// Files of the folder itself: init (what the start returns), init_hang (seconds), init_abort, print
// (what each start prints on standard output).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kNotSupported = 3, kNoPermission = 4, kTimeout = 10, kLost = 15, kUnknown = 999;

struct Gpu {
  std::string folder;  // empty: built in
  int number = 0;
};
std::vector<Gpu> gpus;

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  while (!all.empty() && all.back() == '\n') all.pop_back();
  return all;
}

long long number_in(const std::string& path, long long otherwise) {
  const std::string text = text_in(path);
  return text.empty() ? otherwise : std::atoll(text.c_str());
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Gpu& gpu_of(void* device) { return gpus[reinterpret_cast<std::size_t>(device) - 1]; }

void pause(long long seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::seconds(seconds));
}

// What a call returns, after what the folder wants done first.
int answer(const char* call, void* device) {
  const Gpu& gpu = gpu_of(device);
  if (gpu.folder.empty()) {
    const char* silent = std::getenv("FAKE_NVML_SILENT");
    const std::string wanted = std::string(call) + ":" + std::to_string(gpu.number);
    return silent != nullptr && wanted == silent ? kUnknown : 0;
  }
  if (exists(gpu.folder + "/abort")) std::abort();
  pause(number_in(gpu.folder + "/hang", 0));
  if (exists(gpu.folder + "/gone")) return kLost;
  std::istringstream failing(text_in(gpu.folder + "/partial"));
  for (std::string each; failing >> each;) {
    if (each == call) return kUnknown;
  }
  return 0;
}

long long value(void* device, const char* name, long long otherwise) {
  const Gpu& gpu = gpu_of(device);
  return gpu.folder.empty() ? otherwise : number_in(gpu.folder + "/" + name, otherwise);
}

std::string text(void* device, const char* name, const std::string& otherwise) {
  const Gpu& gpu = gpu_of(device);
  const std::string given = gpu.folder.empty() ? "" : text_in(gpu.folder + "/" + name);
  return given.empty() ? otherwise : given;
}

void list_folders(const std::string& folder) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !exists(entry.path() / "gone")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  for (const std::string& each : folders) gpus.push_back({each, static_cast<int>(gpus.size())});
}

bool is_second(void* device) { return gpu_of(device).folder.empty() && gpu_of(device).number == 1; }

}  // namespace

extern "C" {
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
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type, code;
  unsigned long long value;
};
struct EventSet {
  void* device;
  std::vector<int> xids;
};

int nvmlInit_v2() {
  gpus.clear();
  const char* folder = std::getenv("FAKE_NVML_FOLDER");
  if (folder == nullptr) {
    gpus = {{"", 0}, {"", 1}};
    const char* result = std::getenv("FAKE_NVML_INIT");
    return result == nullptr ? 0 : std::atoi(result);
  }
  const std::string at = folder;
  std::printf("%s", text_in(at + "/print").c_str());
  std::fflush(stdout);
  if (exists(at + "/init_abort")) std::abort();
  pause(number_in(at + "/init_hang", 0));
  list_folders(at);
  return static_cast<int>(number_in(at + "/init", 0));
}
const char* nvmlErrorString(int code) {
  if (code == kLost) return "GPU is lost";
  return code == kUnknown && std::getenv("FAKE_NVML_FOLDER") != nullptr
             ? "Unknown Error"
             : "Driver/library version mismatch";
}
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  const bool built_in = std::getenv("FAKE_NVML_FOLDER") == nullptr;
  *count = static_cast<unsigned>(gpus.size()) + (built_in ? 1 : 0);
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= gpus.size()) return index == 2 ? kNoPermission : 2;
  *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
  return answer("handle", *device);
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  const char* usual = is_second(device) ? "Tesla V100" : "NVIDIA H200";
  std::strncpy(name, text(device, "name", usual).c_str(), length);
  return answer("name", device);
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  const Gpu& gpu = gpu_of(device);
  const std::string usual = gpu.folder.empty() ? (gpu.number == 0 ? "GPU-aa11" : "GPU-aa22")
                                               : "GPU-" + fs::path(gpu.folder).filename().string();
  const int failed = answer("uuid", device);
  if (failed == 0 || gpu.folder.empty())
    std::strncpy(uuid, text(device, "uuid", usual).c_str(), length);
  return failed;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const long long total =
      value(device, "total", is_second(device) ? 16'000'000'000 : 150'000'000'000);
  const long long used = value(device, "used", 1'000'000'000);
  *memory = {static_cast<unsigned long long>(total), static_cast<unsigned long long>(total - used),
             static_cast<unsigned long long>(used)};
  return answer("memory", device);
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = static_cast<int>(value(device, "capability", is_second(device) ? 7 : 9));
  *minor = 0;
  return answer("capability", device);
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* load) {
  *load = {static_cast<unsigned>(value(device, "busy", 0)), 0};
  return answer("utilization", device);
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  *celsius = static_cast<unsigned>(value(device, "temperature", 30));
  return answer("temperature", device);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = static_cast<unsigned>(value(device, "power", 70'000));
  return answer("power", device);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  *milliwatts = static_cast<unsigned>(value(device, "power_limit", 700'000));
  return answer("power", device);
}
int nvmlDeviceGetClockInfo(void* device, int, unsigned* mhz) {
  *mhz = static_cast<unsigned>(value(device, "clock", 350));
  return answer("clock", device);
}
int nvmlDeviceGetMaxClockInfo(void* device, int, unsigned* mhz) {
  *mhz = static_cast<unsigned>(value(device, "clock_max", 1980));
  return answer("clock", device);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = static_cast<unsigned long long>(value(device, "throttle", 1));
  return answer("throttle", device);
}
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  for (FieldValue* each = values; each != values + count; ++each) {
    const std::string name = std::to_string(each->field);
    each->type = 3;  // unsigned long long
    each->value = static_cast<unsigned long long>(value(device, name.c_str(), 0));
    const bool old = is_second(device) && each->field >= 142;  // no row remapper
    each->code = old ? kNotSupported : 0;
  }
  return answer("fields", device);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  std::istringstream lines(text(device, "processes", ""));
  unsigned found = 0;
  Process each{};
  while (found < *count && lines >> each.pid >> each.used) processes[found++] = each;
  *count = found;
  return answer("processes", device);
}
int nvmlEventSetCreate(void** set) { return *set = new EventSet{}, 0; }
int nvmlDeviceRegisterEvents(void* device, unsigned long long, void* set) {
  static_cast<EventSet*>(set)->device = device;
  return answer("events", device);
}
int nvmlEventSetWait_v2(void* set, EventData* data, unsigned) {
  EventSet& events = *static_cast<EventSet*>(set);
  const std::string folder = gpu_of(events.device).folder;
  if (events.xids.empty() && exists(folder + "/xid")) {
    std::istringstream numbers(text_in(folder + "/xid"));
    std::error_code error;
    fs::remove(folder + "/xid", error);
    for (int xid = 0; numbers >> xid;) events.xids.push_back(xid);
  }
  if (events.xids.empty()) return kTimeout;
  *data = {events.device, 8, static_cast<unsigned long long>(events.xids.front()), ~0u, ~0u};
  events.xids.erase(events.xids.begin());
  return 0;
}
}
