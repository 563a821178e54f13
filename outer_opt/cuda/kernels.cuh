// The kernels made of the bodies in blocks.h, streams.h and sparse_lanes.h, and their launches in a
// shape that the caller chooses: kernels.cu has the one in use, bench/kernels tries others. A warp
// takes some blocks of a codec after the other, a thread block one chunk of sparse2, or a tile of
// what has no blocks. For nvcc only.
#pragma once

#include <algorithm>
#include <string>

#include "outer_opt/core/codec/codec_traits.h"
#include "outer_opt/cuda/blocks.h"
#include "outer_opt/cuda/device_codec.h"
#include "outer_opt/cuda/sparse_lanes.h"
#include "outer_opt/cuda/streams.h"

namespace shoal::outer_opt::cuda {

struct Warp {
  __device__ unsigned rank() const { return threadIdx.x % kLanes; }
  __device__ std::uint32_t max(std::uint32_t value) const {
    return __reduce_max_sync(0xffffffffu, value);
  }
  __device__ std::uint32_t from(std::uint32_t value, unsigned rank) const {
    return __shfl_sync(0xffffffffu, value, static_cast<int>(rank));
  }
};

// Shared memory of the sums of a thread block: those of two turns, so that one barrier is enough.
template <unsigned kSize>
struct BlockSums {
  std::uint32_t counts[2][kSize / kLanes];
  double sums[2][kSize / kLanes];
};

template <unsigned kSize>
class ThreadBlock {
 public:
  static constexpr unsigned kThreads = kSize, kLead = kLanes, kWarps = kSize / kLanes;
  __device__ explicit ThreadBlock(BlockSums<kSize>& shared) : shared_(shared) {}

  __device__ unsigned rank() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ std::uint32_t add(std::uint32_t* shared, std::uint32_t value) const {
    return atomicAdd(shared, value);
  }
  __device__ std::uint32_t sum(std::uint32_t value) {
    return over_warps(lead_sum(value), shared_.counts);
  }
  __device__ double sum(double value) { return over_warps(lead_sum(value), shared_.sums); }

  __device__ void lead_sync() const { __syncwarp(); }
  __device__ std::uint32_t lead_sum(std::uint32_t value) const {
    return __reduce_add_sync(0xffffffffu, value);
  }
  __device__ std::uint32_t lead_max(std::uint32_t value) const {
    return __reduce_max_sync(0xffffffffu, value);
  }
  __device__ double lead_sum(double value) const {
    for (unsigned step = kLanes / 2; step > 0; step /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, static_cast<int>(step));
    }
    return value;
  }
  __device__ double lead_from(double value, unsigned rank) const {
    return __shfl_sync(0xffffffffu, value, static_cast<int>(rank));
  }

 private:
  template <typename Value>
  __device__ Value over_warps(Value of_warp, Value (&sums)[2][kWarps]) {
    Value(&now)[kWarps] = sums[turn_++ % 2];
    if (threadIdx.x % kLanes == 0) now[threadIdx.x / kLanes] = of_warp;
    __syncthreads();
    Value total = 0;
    for (const Value one : now) total += one;
    return total;
  }

  BlockSums<kSize>& shared_;
  unsigned turn_ = 0;
};

__device__ inline WarpPlace warp_place() {
  const std::size_t warps = blockDim.x / kLanes;
  return {blockIdx.x * warps + threadIdx.x / kLanes, gridDim.x * warps};
}
__device__ inline ThreadPlace thread_place() {
  return {threadIdx.x, blockDim.x, blockIdx.x, gridDim.x};
}

// `kAhead`: how much a thread loads before it works on it, in quads where there are no blocks, in
// `kBlocks` of them else.
template <unsigned kBlocks, typename Block>
__global__ void encode_kernel(const float* in, std::size_t n, std::byte* out) {
  Warp warp;
  encode_blocks<Block, kBlocks>(warp, warp_place(), in, n, out);
}

template <unsigned kBlocks, typename Block, typename Put>
__global__ void decode_kernel(const std::byte* in, std::size_t n, Put put, float* out,
                              int* damaged) {
  if (!decode_blocks<Block, kBlocks>(Warp().rank(), warp_place(), in, n, put, out)) *damaged = 1;
}

template <unsigned kAhead, typename Each>
__global__ void each_kernel(Each each, std::size_t n) {
  walk<kAhead>(thread_place(), n, each);
}

template <unsigned kAhead, typename Decoding>
__global__ void decode_flat_kernel(Decoding decoding, std::size_t n, int* damaged) {
  walk<kAhead>(thread_place(), n, decoding);
  if (!decoding.good) *damaged = 1;
}

// One PartialStatistics per thread block; kSize threads.
template <unsigned kAhead, unsigned kSize>
__global__ void measure_kernel(const float* values, std::size_t n, PartialStatistics* partial) {
  __shared__ BlockSums<kSize> sums;
  __shared__ std::uint32_t most;
  ThreadBlock<kSize> group(sums);
  Measuring mine{values};
  walk<kAhead>(thread_place(), n, mine);
  if (group.rank() == 0) most = 0;
  group.sync();
  atomicMax(&most, mine.largest);
  const double squares = group.sum(mine.squares);
  const std::uint32_t bad = group.sum(mine.nonfinite);
  if (group.rank() == 0) partial[blockIdx.x] = {squares, most, bad};
}

// Shared memory is not initialized, whatever its type says.
template <typename T>
struct Uninitialized {
  alignas(T) unsigned char bytes[sizeof(T)];
  __device__ T& get() { return *reinterpret_cast<T*>(bytes); }
};

// Calls use(values, how many, where their encoding goes) for the chunks of this thread block.
template <typename Use>
__device__ void for_each_chunk(const float* in, std::size_t n, std::byte* out, Use use) {
  const std::size_t stride = sparse2::Layout(sparse2::kChunk).size;
  for (std::size_t chunk = blockIdx.x; chunk * sparse2::kChunk < n; chunk += gridDim.x) {
    const std::size_t first = chunk * sparse2::kChunk, rest = n - first;
    const auto count = static_cast<unsigned>(rest < sparse2::kChunk ? rest : sparse2::kChunk);
    use(in + first, count, out + chunk * stride);
  }
}

// Nine blocks at a time: while the first warps of some are at work alone, others read. With larger
// blocks, as many threads.
constexpr unsigned sparse_blocks(unsigned size) { return size < 128 ? 9 : 9 * 128 / size; }
template <unsigned kSize>
__global__ void __launch_bounds__(kSize, sparse_blocks(kSize))
    encode_sparse(const float* in, std::size_t n, std::byte* out) {
  __shared__ Uninitialized<SparseScratch> scratch;
  __shared__ BlockSums<kSize> sums;
  ThreadBlock<kSize> group(sums);
  for_each_chunk(in, n, out, [&](const float* values, unsigned count, std::byte* to) {
    encode_sparse_chunk(group, values, count, scratch.get(), to);
  });
}

// ---- launches

// How a kernel is spread over the device: threads of a block, and blocks at most; what is left is
// done by the same blocks in turn.
struct Shape {
  unsigned threads = 256;
  unsigned blocks_max = 132 * 64;  // what keeps a large device busy several times over
};

inline Status told(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return Error{Code::kInternal, std::string("CUDA: ") + cudaGetErrorString(error)};
}

// Blocks for n values, of which each block takes `each` at a time.
inline unsigned blocks_for(const Shape& shape, std::size_t n, std::size_t each) {
  const std::size_t pieces = (n + each - 1) / each;
  return static_cast<unsigned>(std::clamp<std::size_t>(pieces, 1, shape.blocks_max));
}

template <unsigned kAhead>
unsigned tiles(const Shape& shape, std::size_t n) {
  return blocks_for(shape, n, std::size_t{shape.threads} * kQuad * kAhead);
}
// Blocks of half the size: twice as many.
template <typename Block, unsigned kAhead>
constexpr unsigned kBlocksAhead = kAhead* kBlockValuesMax / Block::kValues;
template <unsigned kAhead>
unsigned warp_tiles(const Shape& shape, std::size_t n) {
  constexpr std::size_t kOfWarp = std::size_t{kBlockValuesMax} * kAhead;
  return blocks_for(shape, n, kOfWarp * (shape.threads / kLanes));
}

inline Status no_such_codec(CodecKind kind) {
  return Error{Code::kInternal, std::string("no dense codec: ") + to_string(kind)};
}

template <unsigned kAhead, typename Each>
Status launch_each(const Shape& shape, std::size_t n, const Each& each, cudaStream_t stream) {
  if (n == 0) return {};
  each_kernel<kAhead><<<tiles<kAhead>(shape, n), shape.threads, 0, stream>>>(each, n);
  return told(cudaGetLastError());
}

template <unsigned kAhead>
struct Encoding {
  Shape shape;
  const float* in;
  std::size_t n;
  std::byte* out;
  cudaStream_t stream;

  template <typename Block>
  Status blocks() const {
    encode_kernel<kBlocksAhead<Block, kAhead>, Block>
        <<<warp_tiles<kAhead>(shape, n), shape.threads, 0, stream>>>(in, n, out);
    return told(cudaGetLastError());
  }
  template <typename Format>
  Status flat() const {
    using Each = FlatEncoding<Format>;
    return launch_each<kAhead>(shape, n, Each{in, reinterpret_cast<typename Each::Stored*>(out)},
                               stream);
  }
};

template <unsigned kAhead, typename Put>
struct Decoding {
  Shape shape;
  const std::byte* in;
  std::size_t n;
  Put put;
  float* out;
  int* damaged;
  cudaStream_t stream;

  template <typename Block>
  Status blocks() const {
    decode_kernel<kBlocksAhead<Block, kAhead>, Block>
        <<<warp_tiles<kAhead>(shape, n), shape.threads, 0, stream>>>(in, n, put, out, damaged);
    return told(cudaGetLastError());
  }
  template <typename Format>
  Status flat() const {
    using Each = FlatDecoding<Format, Put>;
    const Each each{reinterpret_cast<const typename Each::Stored*>(in), out, put};
    decode_flat_kernel<kAhead>
        <<<tiles<kAhead>(shape, n), shape.threads, 0, stream>>>(each, n, damaged);
    return told(cudaGetLastError());
  }
};

// `launches` is an Encoding or a Decoding.
template <CodecKind kKind, typename Format, typename Launches>
Status launch_as(const Launches& launches) {
  constexpr CodecTraits kTraits = traits_of(kKind);
  if constexpr (kTraits.block == 0) {
    return launches.template flat<Format>();
  } else {
    using Blocks = BlockOf<Format, kTraits.bits>;
    static_assert(Blocks::kValues == kTraits.block && Blocks::kScaleBytes == kTraits.scale_bytes);
    return launches.template blocks<Blocks>();
  }
}

template <typename Launches>
Status launch_dense(CodecKind kind, const Launches& launches) {
  if (launches.n == 0) return {};
  switch (kind) {
#define SHOAL_LAUNCH(name, ...) \
  case CodecKind::k##name:      \
    return launch_as<CodecKind::k##name, formats::name>(launches);
    SHOAL_DENSE_CODECS(SHOAL_LAUNCH)
#undef SHOAL_LAUNCH
    case CodecKind::kSparse2:
      break;
  }
  return no_such_codec(kind);
}

// With blocks of kSize threads.
template <unsigned kSize>
Status launch_sparse(const Shape& shape, const float* in, std::size_t n, std::byte* out,
                     cudaStream_t stream) {
  if (n == 0) return {};
  encode_sparse<kSize><<<blocks_for(shape, n, sparse2::kChunk), kSize, 0, stream>>>(in, n, out);
  return told(cudaGetLastError());
}

template <unsigned kAhead>
Status launch_outer_step(const Shape& shape, const OuterSpec& options, const float* average,
                         std::size_t n, float* momentum, float* anchor, cudaStream_t stream) {
  const OuterStep step{static_cast<float>(options.lr), static_cast<float>(options.momentum),
                       average, momentum, anchor};
  return launch_each<kAhead>(shape, n, step, stream);
}

}  // namespace shoal::outer_opt::cuda
