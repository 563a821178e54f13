// A management library with three GPUs, for device_probe_test.cc. The second one is too old for
// bf16, the third one belongs to somebody else.
// $FAKE_NVML_INIT is what the library's start returns.
#include <cstdlib>
#include <cstring>

namespace {
int gpus[2];
struct Memory {
  unsigned long long total, free, used;
};
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
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::strncpy(name, device == &gpus[0] ? "NVIDIA H200" : "Tesla V100", length);
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  std::strncpy(uuid, device == &gpus[0] ? "GPU-aa11" : "GPU-aa22", length);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const unsigned long long total = device == &gpus[0] ? 150'000'000'000ull : 16'000'000'000ull;
  *memory = {total, total - 1'000'000'000ull, 1'000'000'000ull};
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = device == &gpus[0] ? 9 : 7;
  *minor = 0;
  return 0;
}
}
