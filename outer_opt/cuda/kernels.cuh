// The kernels made of the bodies in lanes.h and sparse_lanes.h, and their launches in a shape that
// the caller chooses: kernels.cu has the one in use, bench/kernels tries others. A warp takes one
// block of a codec after the other, a thread block one chunk of sparse2, a thread one quad of what
// has no blocks. For nvcc only.
#pragma once

#include <algorithm>
#include <string>

#include "outer_opt/cuda/device_codec.h"
#include "outer_opt/cuda/lanes.h"
#include "outer_opt/cuda/sparse_lanes.h"

namespace shoal::outer_opt::cuda {

struct Warp {
  __device__ unsigned rank() const { return threadIdx.x % kLanes; }
  __device__ std::uint32_t max(std::uint32_t value) const {
    return __reduce_max_sync(0xffffffffu, value);
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
  static constexpr unsigned kThreads = kSize, kWarps = kSize / kLanes;
  __device__ explicit ThreadBlock(BlockSums<kSize>& shared) : shared_(shared) {}

  __device__ unsigned rank() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ std::uint32_t add(std::uint32_t* shared, std::uint32_t value) const {
    return atomicAdd(shared, value);
  }
  __device__ std::uint32_t sum(std::uint32_t value) {
    return over_warps(__reduce_add_sync(0xffffffffu, value), shared_.counts);
  }
  __device__ double sum(double value) {
    for (unsigned step = kLanes / 2; step > 0; step /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, static_cast<int>(step));
    }
    return over_warps(value, shared_.sums);
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

// Calls use(block, values in it) for the blocks of this warp.
template <typename Block, typename Use>
__device__ void for_each_block(std::size_t n, Use use) {
  const std::size_t warps = std::size_t{gridDim.x} * (blockDim.x / kLanes);
  std::size_t block = std::size_t{blockIdx.x} * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  for (; block * Block::kValues < n; block += warps) {
    const std::size_t rest = n - block * Block::kValues;
    use(block, static_cast<unsigned>(rest < Block::kValues ? rest : Block::kValues));
  }
}

template <typename Block>
__global__ void encode_blocks(const float* in, std::size_t n, std::byte* out) {
  Warp warp;
  for_each_block<Block>(n, [&](std::size_t block, unsigned count) {
    Block::encode(warp, in + block * Block::kValues, count,
                  out + block * Block::bytes(Block::kValues));
  });
}

template <typename Block, typename Put>
__global__ void decode_blocks(const std::byte* in, std::size_t n, Put put, float* out,
                              int* damaged) {
  Warp warp;
  for_each_block<Block>(n, [&](std::size_t block, unsigned count) {
    const bool good = Block::decode(warp, in + block * Block::bytes(Block::kValues), count, put,
                                    out + block * Block::kValues);
    if (!good) *damaged = 1;
  });
}

// Calls use(first value) for the quads of this thread.
template <typename Use>
__device__ void for_each_quad(std::size_t n, Use use) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x * kQuad;
  std::size_t first = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * kQuad;
  for (; first < n; first += stride) use(first);
}

template <typename Format>
__global__ void encode_flat(const float* in, std::size_t n, std::byte* out) {
  for_each_quad(n, [&](std::size_t first) {
    FlatQuad<Format>::encode(in + first, n - first, out + first * sizeof(typename Format::Stored));
  });
}

template <typename Format, typename Put>
__global__ void decode_flat(const std::byte* in, std::size_t n, Put put, float* out, int* damaged) {
  for_each_quad(n, [&](std::size_t first) {
    const bool good = FlatQuad<Format>::decode(in + first * sizeof(typename Format::Stored),
                                               n - first, put, out + first);
    if (!good) *damaged = 1;
  });
}

// Shared memory is not initialised, whatever its type says.
template <typename T>
struct Uninitialised {
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

template <unsigned kSize>
__global__ void encode_sparse(const float* in, std::size_t n, std::byte* out) {
  __shared__ Uninitialised<SparseScratch> scratch;
  __shared__ BlockSums<kSize> sums;
  ThreadBlock<kSize> group(sums);
  for_each_chunk(in, n, out, [&](const float* values, unsigned count, std::byte* to) {
    encode_sparse_chunk(group, values, count, scratch.get(), to);
  });
}

__device__ inline unsigned quad_size(std::size_t rest) {
  return static_cast<unsigned>(rest < kQuad ? rest : kQuad);
}

// `kAhead` quads of a thread are loaded before the first one is worked on.
template <unsigned kAhead>
__global__ void outer_step(OuterStep step, const float* average, std::size_t n, float* momentum,
                           float* anchor) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t stride = threads * kQuad;
  std::size_t first = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * kQuad;
  for (; first < n; first += stride * kAhead) {
    Quad d[kAhead], m[kAhead], theta[kAhead];
#pragma unroll
    for (unsigned k = 0; k < kAhead; ++k) {
      const std::size_t at = first + k * stride;
      if (at >= n) break;
      d[k] = load_quad(average + at, 0, quad_size(n - at));
      m[k] = load_quad(momentum + at, 0, quad_size(n - at));
      theta[k] = load_quad(anchor + at, 0, quad_size(n - at));
    }
#pragma unroll
    for (unsigned k = 0; k < kAhead; ++k) {
      const std::size_t at = first + k * stride;
      if (at >= n) break;
      for (unsigned j = 0; j < kQuad; ++j) step(d[k].x[j], m[k].x[j], theta[k].x[j]);
      put_quad(m[k], 0, quad_size(n - at), Overwrite{}, momentum + at);
      put_quad(theta[k], 0, quad_size(n - at), Overwrite{}, anchor + at);
    }
  }
}

// Calls use(index) for the values of this thread.
template <typename Use>
__device__ void for_each_value(std::size_t n, Use use) {
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < n; i += std::size_t{gridDim.x} * blockDim.x) use(i);
}

// What happens to each value on its own; `Each` is called with its index.
template <typename Each>
__global__ void each_value(std::size_t n, Each each) {
  for_each_value(n, each);
}

struct Difference {
  const float *of, *minus;
  float* out;
  __device__ void operator()(std::size_t i) const { out[i] = __fsub_rn(of[i], minus[i]); }
};
struct Addition {
  const float* values;
  float factor;
  float* sum;
  int* damaged;
  __device__ void operator()(std::size_t i) const {
    sum[i] = add_scaled(sum[i], factor, values[i]);
    if (!finite(values[i])) *damaged = 1;
  }
};
struct Scaling {
  float factor;
  float* values;
  __device__ void operator()(std::size_t i) const { values[i] = __fmul_rn(values[i], factor); }
};
struct Adoption {
  Adopt adopt;
  const float* anchor;
  float* local;
  __device__ void operator()(std::size_t i) const { local[i] = adopt(local[i], anchor[i]); }
};

// One PartialFacts per thread block; kSize threads.
template <unsigned kSize>
__global__ void measure_values(const float* values, std::size_t n, PartialFacts* partial) {
  __shared__ BlockSums<kSize> sums;
  ThreadBlock<kSize> group(sums);
  double squares = 0;
  std::uint32_t largest = 0, nonfinite = 0;
  for_each_value(n, [&](std::size_t i) {
    const float value = values[i];
    const std::uint32_t bits = bits_of(value) & kMagnitude;
    if (!finite(value)) {
      ++nonfinite;
      return;
    }
    const double v = value;
    squares += v * v;
    largest = bits > largest ? bits : largest;
  });
  __shared__ std::uint32_t most;
  if (group.rank() == 0) most = 0;
  group.sync();
  atomicMax(&most, largest);
  squares = group.sum(squares);
  const std::uint32_t bad = group.sum(nonfinite);
  if (group.rank() == 0) partial[blockIdx.x] = {squares, most, bad};
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
inline unsigned quad_blocks(const Shape& shape, std::size_t n) {
  return blocks_for(shape, n, std::size_t{shape.threads} * kQuad);
}
template <typename Block>
unsigned warp_blocks(const Shape& shape, std::size_t n) {
  return blocks_for(shape, n, std::size_t{Block::kValues} * (shape.threads / kLanes));
}

inline Status no_such_codec(CodecKind kind) {
  return Error{Code::kInternal, std::string("no dense codec: ") + to_string(kind)};
}

struct Encoding {
  Shape shape;
  const float* in;
  std::size_t n;
  std::byte* out;
  cudaStream_t stream;

  template <typename Block>
  Status blocks() const {
    encode_blocks<Block><<<warp_blocks<Block>(shape, n), shape.threads, 0, stream>>>(in, n, out);
    return told(cudaGetLastError());
  }
  template <typename Format>
  Status flat() const {
    encode_flat<Format><<<quad_blocks(shape, n), shape.threads, 0, stream>>>(in, n, out);
    return told(cudaGetLastError());
  }
};

template <typename Put>
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
    decode_blocks<Block>
        <<<warp_blocks<Block>(shape, n), shape.threads, 0, stream>>>(in, n, put, out, damaged);
    return told(cudaGetLastError());
  }
  template <typename Format>
  Status flat() const {
    decode_flat<Format>
        <<<quad_blocks(shape, n), shape.threads, 0, stream>>>(in, n, put, out, damaged);
    return told(cudaGetLastError());
  }
};

// `launches` is an Encoding or a Decoding.
template <typename Launches>
Status launch_dense(CodecKind kind, const Launches& launches) {
  if (launches.n == 0) return {};
  switch (kind) {
    case CodecKind::kFp32:
      return launches.template flat<formats::Fp32>();
    case CodecKind::kFp16:
      return launches.template flat<formats::Fp16>();
    case CodecKind::kBf16:
      return launches.template flat<formats::Bf16>();
    case CodecKind::kInt8:
      return launches.template blocks<Int8Block>();
    case CodecKind::kInt4:
      return launches.template blocks<NibbleBlock<formats::Int4>>();
    case CodecKind::kE3m0:
      return launches.template blocks<NibbleBlock<formats::E3m0>>();
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
  if (n == 0) return {};
  const OuterStep step{static_cast<float>(options.lr), static_cast<float>(options.momentum)};
  const unsigned blocks = blocks_for(shape, n, std::size_t{shape.threads} * kQuad * kAhead);
  outer_step<kAhead><<<blocks, shape.threads, 0, stream>>>(step, average, n, momentum, anchor);
  return told(cudaGetLastError());
}

template <typename Each>
Status launch_each(const Shape& shape, std::size_t n, Each each, cudaStream_t stream) {
  if (n == 0) return {};
  each_value<<<blocks_for(shape, n, shape.threads), shape.threads, 0, stream>>>(n, each);
  return told(cudaGetLastError());
}

}  // namespace shoal::outer_opt::cuda
