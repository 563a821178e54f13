// Everything about libtorch that is not arithmetic: which device this process computes on, how fast
// it is, and the one place where libtorch's exceptions become failures with a name. No torch types
// in here.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "messages/messages.h"
#include "trainer/model/failure.h"

namespace shoal::trainer {

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  std::int32_t index = 0;    // as the agent counts them
  int threads = 1;           // CPU threads of this process
  double speed = 1;          // in (0, 1]: slower on purpose (slowdown.h)
  std::int32_t ordinal = 0;  // CUDA's, among the devices that this process sees
};

// Sets thread counts and checks that the device is there. Call once, before any tensor is made.
Status prepare_device(const DeviceChoice& choice);

// Name, memory a replica may use, bf16, and the measured speed of an fp32 matrix product (under 1
// s).
Device measure_device(const DeviceChoice& choice);

// Whether it multiplies matrices in bfloat16: GPUs of compute capability 8.0 or newer.
bool has_bf16(const DeviceChoice& choice);

// What a replica may use now; 0 when it cannot be told.
Bytes device_memory(const DeviceChoice& choice);

// "libtorch 1.13.1, BLAS OpenBLAS 0.3.21, avx512 kernels, 1 thread".
std::string describe_libraries(const DeviceChoice& choice);

// Runs `work`. An exception becomes a Failure: out of memory, device lost, or internal with the
// first line of its text.
MaybeFailure guarded(const std::function<void()>& work);

// The same for callers that want a Status: kResourceExhausted, kUnavailable (device lost),
// kInternal.
Status guarded_status(const std::function<void()>& work);

}  // namespace shoal::trainer
