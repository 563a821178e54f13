// See torch_bridge.h. CUDA is only asked about through libtorch; the property headers exist in CUDA
// builds of it alone, hence SHOAL_TORCH_CUDA.
#include "trainer/model/torch_bridge.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <new>

#include <unistd.h>

#include "trainer/model/slowdown.h"
#include "trainer/model/torch_pch.h"
#include "trainer/plain/blas.h"
#include "trainer/plain/cpu_kernels.h"
#if SHOAL_TORCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace shoal::trainer {
namespace {

constexpr std::int64_t kProbeSizeCpu = 512, kProbeSizeCuda = 4096;
constexpr double kProbeSeconds = 0.3;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool contains(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

// CUDA reports through text: "CUDA error: …", "CUDA out of memory. Tried to allocate …".
Failure name_exception(const std::string& text) {
  const std::string line = first_line(text);
  if (contains(text, "out of memory") || contains(text, "DefaultCPUAllocator") ||
      contains(text, "not enough memory")) {
    return {ReplicaFailure::kOutOfMemory, line};
  }
  if (contains(text, "CUDA error") || contains(text, "cuDNN error") ||
      contains(text, "CUBLAS_STATUS") || contains(text, "NCCL")) {
    return {ReplicaFailure::kDeviceLost, line};
  }
  return {ReplicaFailure::kInternal, line};
}

std::string file_value(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto colon = line.find(':');
    const auto start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::string cpu_name() {
  const std::string name = file_value("/proc/cpuinfo", "model name");
  return name.empty() ? "CPU" : name;
}

Bytes cpu_memory() {
  const std::string kib = file_value("/proc/meminfo", "MemAvailable");
  if (!kib.empty()) return Bytes(std::atoll(kib.c_str()) << 10);
  return Bytes(static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

void synchronize(const torch::Device& device) {  // not whichever device is the current one
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

double measure_gflops(const torch::Device& device, DeviceKind kind, double speed) {
  const torch::NoGradGuard no_grad;
  const std::int64_t n = kind == DeviceKind::kCuda ? kProbeSizeCuda : kProbeSizeCpu;
  const auto a = torch::ones({n, n}, torch::TensorOptions().device(device));
  auto c = torch::mm(a, a);
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0;
  int products = 0;
  while (elapsed < kProbeSeconds) {
    {
      const SlowedPiece piece(speed);
      torch::mm_out(c, a, a);
      synchronize(device);
    }
    ++products;
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const auto size = static_cast<double>(n);
  return 2.0 * size * size * size * products / elapsed * 1e-9;
}

void describe_cuda(const DeviceChoice& choice, Device& out) {
#if SHOAL_TORCH_CUDA
  const auto* properties = at::cuda::getDeviceProperties(choice.ordinal);
  out.name = properties->name;
  out.memory = Bytes(static_cast<std::int64_t>(properties->totalGlobalMem));
  out.bf16 = properties->major >= 8;
#else
  out.name = "CUDA device " + std::to_string(choice.ordinal);
#endif
}

// Why this process can use no CUDA device: no driver, one that is too old for this libtorch, or one
// that failed to start.
std::string why_no_cuda() {
#if SHOAL_TORCH_CUDA
  try {
    c10::cuda::device_count_ensure_non_zero();
  } catch (const c10::Error& e) {
    return first_line(e.what_without_backtrace());
  }
  return "it shows no device";
#else
  return "this libtorch was built without CUDA";
#endif
}

}  // namespace

Status prepare_device(const DeviceChoice& choice) {
  at::set_num_interop_threads(1);
  at::set_num_threads(choice.threads);
  set_blas_threads(choice.threads);
  if (choice.kind == DeviceKind::kCpu) return {};
  if (!torch::cuda::is_available()) {
    return Error{Code::kUnavailable, "libtorch cannot use CUDA: " + why_no_cuda(), "",
                 "check the driver with nvidia-smi, or run the agent with --devices cpu"};
  }
  if (choice.ordinal >= static_cast<std::int32_t>(torch::cuda::device_count())) {
    return Error{Code::kNotFound, "there is no CUDA device " + std::to_string(choice.ordinal), "",
                 "check CUDA_VISIBLE_DEVICES, and the GPUs with nvidia-smi"};
  }
  return {};
}

bool has_bf16(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCpu) return false;
  Device device;
  describe_cuda(choice, device);
  return device.bf16;
}

Bytes device_memory(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCpu) return cpu_memory();
  Device device;
  describe_cuda(choice, device);
  return device.memory;
}

Device measure_device(const DeviceChoice& choice) {
  Device out;
  out.index = choice.index;
  out.kind = choice.kind;
  if (choice.kind == DeviceKind::kCuda) {
    describe_cuda(choice, out);
    out.gflops =
        measure_gflops(torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(choice.ordinal)),
                       choice.kind, choice.speed);
  } else {
    out.name = cpu_name();
    out.memory = cpu_memory();
    out.gflops = measure_gflops(torch::Device(torch::kCPU), choice.kind, choice.speed);
  }
  return out;
}

std::string describe_libraries(const DeviceChoice& choice) {
  std::string text = "libtorch " TORCH_VERSION ", BLAS " + blas().name;
  text += std::string(", ") + cpu_kernels().name + " kernels, ";
  text += std::to_string(choice.threads) + (choice.threads == 1 ? " thread" : " threads");
  return text;
}

MaybeFailure guarded(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const c10::Error& e) {
    return name_exception(e.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return Failure{ReplicaFailure::kOutOfMemory, "the host has no memory left"};
  } catch (const std::exception& e) {
    return name_exception(e.what());
  }
}

Status guarded_status(const std::function<void()>& work) {
  const MaybeFailure failure = guarded(work);
  if (!failure) return {};
  switch (failure->kind) {
    case ReplicaFailure::kOutOfMemory:
      return Error{Code::kResourceExhausted, failure->detail, "", "use a smaller model or batch"};
    case ReplicaFailure::kDeviceLost:
      return Error{Code::kUnavailable, failure->detail, "", "look at the device with nvidia-smi"};
    default:
      return Error{Code::kInternal, failure->detail, "", ""};
  }
}

}  // namespace shoal::trainer
