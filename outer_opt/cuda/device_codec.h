// The codecs and the outer step on a CUDA device, with the same bytes and bits as on the CPU
// (outer_opt/core/codec/codec.h, sparse2.h, nesterov.h). All pointers are device memory: encodings
// aligned as cudaMalloc aligns, values anyhow, though fastest at multiples of 16 bytes. Calls are
// queued on `stream` and return at once. kInternal with CUDA's own words when a launch is refused.
// Thread-safe; the device is the caller's current one.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "job/job_spec.h"
#include "outer_opt/cuda/partial_statistics.h"

namespace shoal::outer_opt::cuda {

// Devices that can be used: 0 where there is none or no driver.
int device_count();

// `kind` is one of kDenseCodecs. `out` has encoded_size(n) bytes.
Status encode(CodecKind kind, const float* in, std::size_t n, std::byte* out, cudaStream_t stream);

// `*damaged` is set to 1 when the encoding would be refused on the CPU, and never to 0; what was
// written is then unspecified.
Status decode(CodecKind kind, const std::byte* in, std::size_t n, float* out, int* damaged,
              cudaStream_t stream);
Status accumulate(CodecKind kind, const std::byte* in, std::size_t n, float factor, float* sum,
                  int* damaged, cudaStream_t stream);

// `out` has sparse2_size(n) bytes.
Status sparse2_encode(const float* in, std::size_t n, std::byte* out, cudaStream_t stream);

Status nesterov_step(const OuterSpec& options, const float* average, std::size_t n, float* momentum,
                     float* anchor, cudaStream_t stream);

// out = of - minus.
Status difference(const float* of, const float* minus, std::size_t n, float* out,
                  cudaStream_t stream);
// sum += factor * values, as accumulate() does with fp32; `*damaged` likewise.
Status add(const float* values, std::size_t n, float factor, float* sum, int* damaged,
           cudaStream_t stream);
Status scale(float factor, std::size_t n, float* values, cudaStream_t stream);
// As outer_opt::adopt() (fragments.h) on one range.
Status adopt(double blend, const float* anchor, std::size_t n, float* local, cudaStream_t stream);

// kStatisticsParts of them, to be put together by statistics_of().
Status measure(const float* values, std::size_t n, PartialStatistics* partial, cudaStream_t stream);

}  // namespace shoal::outer_opt::cuda
