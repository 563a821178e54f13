// Every CUDA kernel of the outer step in the shape in use and in others: what `shoal-bench kernels`
// checks and measures. The first variant of a kernel is the one in use.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "job/job_spec.h"

namespace shoal::bench {

// Device memory for n values. A kernel reads `in` or `encoded` and writes the others.
struct KernelVectors {
  std::size_t n = 0;
  float *in = nullptr, *sum = nullptr, *momentum = nullptr;
  std::byte* encoded = nullptr;  // room for fp32
  int* damaged = nullptr;
};

enum class KernelTask {
  kEncode,
  kDecode,
  kAccumulate,
  kOuterStep,   // average in, anchor sum
  kDifference,  // sum = in - momentum
  kAdopt,       // sum by in
  kScale,       // sum
  kStatistics   // of in, to encoded
};

struct KernelVariant {
  std::string kernel, shape;
  KernelTask task = KernelTask::kEncode;
  CodecKind codec = CodecKind::kFp32;  // of the codec tasks
  double target = 0;                   // of the copy bandwidth
  double ms_max = 0;                   // for 2^30 values; 0: no such target
  std::size_t shift = 0;               // values by which the vectors begin late
  std::function<Status(const KernelVectors&, cudaStream_t)> launch;
};

// What all variants of the outer step take.
inline constexpr OuterSpec kBenchOuter{0.7, 0.9};
inline constexpr float kBenchFactor = 0.3f;  // of accumulate and scale
inline constexpr double kBenchBlend = 0.5;   // of adopt

std::vector<KernelVariant> kernel_variants();

}  // namespace shoal::bench
