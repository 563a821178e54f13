// The kernels in the shape in use; what others take is measured by `shoal-bench kernels`.
#include "outer_opt/cuda/kernels.cuh"

namespace shoal::outer_opt::cuda {
namespace {

constexpr Shape kShape;
constexpr unsigned kSparseThreads = 128, kStatisticsThreads = 256;
// How many quads or blocks a thread or warp loads before it works.
constexpr unsigned kAhead = 2;

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // the error was the answer
  return 0;
}

Status encode(CodecKind kind, const float* in, std::size_t n, std::byte* out, cudaStream_t stream) {
  return launch_dense(kind, Encoding<kAhead>{kShape, in, n, out, stream});
}

Status decode(CodecKind kind, const std::byte* in, std::size_t n, float* out, int* damaged,
              cudaStream_t stream) {
  return launch_dense(kind, Decoding<kAhead, Overwrite>{kShape, in, n, {}, out, damaged, stream});
}

Status accumulate(CodecKind kind, const std::byte* in, std::size_t n, float factor, float* sum,
                  int* damaged, cudaStream_t stream) {
  return launch_dense(kind,
                      Decoding<kAhead, Accumulate>{kShape, in, n, {factor}, sum, damaged, stream});
}

Status sparse2_encode(const float* in, std::size_t n, std::byte* out, cudaStream_t stream) {
  return launch_sparse<kSparseThreads>(kShape, in, n, out, stream);
}

Status nesterov_step(const OuterSpec& options, const float* average, std::size_t n, float* momentum,
                     float* anchor, cudaStream_t stream) {
  return launch_outer_step<kAhead>(kShape, options, average, n, momentum, anchor, stream);
}

Status difference(const float* of, const float* minus, std::size_t n, float* out,
                  cudaStream_t stream) {
  return launch_each<kAhead>(kShape, n, Map<2, Minus>{{of, minus}, out, {}}, stream);
}

Status add(const float* values, std::size_t n, float factor, float* sum, int* damaged,
           cudaStream_t stream) {
  return accumulate(CodecKind::kFp32, reinterpret_cast<const std::byte*>(values), n, factor, sum,
                    damaged, stream);
}

Status scale(float factor, std::size_t n, float* values, cudaStream_t stream) {
  return launch_each<kAhead>(kShape, n, Map<1, Times>{{values}, values, {factor}}, stream);
}

Status adopt(double blend, const float* anchor, std::size_t n, float* local, cudaStream_t stream) {
  const auto kept = static_cast<float>(blend);
  const Map<2, Adopt> each{{local, anchor}, local, {kept, 1.0f - kept}};
  return launch_each<kAhead>(kShape, n, each, stream);
}

Status measure(const float* values, std::size_t n, PartialStatistics* partial,
               cudaStream_t stream) {
  measure_kernel<kAhead, kStatisticsThreads>
      <<<kStatisticsParts, kStatisticsThreads, 0, stream>>>(values, n, partial);
  return told(cudaGetLastError());
}

}  // namespace shoal::outer_opt::cuda
