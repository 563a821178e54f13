// A management library with three GPUs, for device_probe_test.cc. The second one is too old for
// bf16, the third one belongs to somebody else.
// $FAKE_NVML_INIT is what the library's start returns. $FAKE_NVML_SILENT=CALL:N makes GPU N fail
// this call: handle, uuid, name, memory or capability.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
int gpus[2];
struct Memory {
  unsigned long long total, free, used;
};
// What a call returns: 999 is NVML_ERROR_UNKNOWN.
int answer(const char* call, void* device) {
  const char* silent = std::getenv("FAKE_NVML_SILENT");
  if (silent == nullptr) return 0;
  const std::string wanted = std::string(call) + (device == &gpus[0] ? ":0" : ":1");
  return wanted == silent ? 999 : 0;
}
}  // namespace

extern "C" {
int nvmlInit_v2() {
  const char* result = std::getenv("FAKE_NVML_INIT");
  return result == nullptr ? 0 : std::atoi(result);
}
const char* nvmlErrorString(int) { return "Driver/library version mismatch"; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 3, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return index == 2 ? 4 : 2;
  *device = &gpus[index];
  return answer("handle", *device);
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::strncpy(name, device == &gpus[0] ? "NVIDIA H200" : "Tesla V100", length);
  return answer("name", device);
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  std::strncpy(uuid, device == &gpus[0] ? "GPU-aa11" : "GPU-aa22", length);
  return answer("uuid", device);
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const unsigned long long total = device == &gpus[0] ? 150'000'000'000ull : 16'000'000'000ull;
  *memory = {total, total - 1'000'000'000ull, 1'000'000'000ull};
  return answer("memory", device);
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = device == &gpus[0] ? 9 : 7;
  *minor = 0;
  return answer("capability", device);
}
}
