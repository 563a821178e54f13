// Launches of the bodies in lanes.h and sparse_lanes.h. A warp takes one block of a codec after the
// other, a thread block one chunk of sparse2, a thread one quad of what has no blocks.
#include <algorithm>
#include <string>

#include "outer_opt/cuda/device_codec.h"
#include "outer_opt/cuda/lanes.h"
#include "outer_opt/cuda/sparse_lanes.h"

namespace shoal::outer_opt::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Warp {
  __device__ unsigned rank() const { return threadIdx.x % kLanes; }
  __device__ std::uint32_t max(std::uint32_t value) const {
    return __reduce_max_sync(0xffffffffu, value);
  }
};

struct ThreadBlock {
  __device__ unsigned rank() const { return threadIdx.x; }
  __device__ unsigned size() const { return blockDim.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ void add(std::uint32_t* shared, std::uint32_t value) const {
    atomicAdd(shared, value);
  }
  __device__ void set_bits(std::uint32_t* shared, std::uint32_t bits) const {
    atomicOr(shared, bits);
  }
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

__global__ void encode_sparse(const float* in, std::size_t n, std::byte* out) {
  __shared__ SparseScratch scratch;
  ThreadBlock group;
  const std::size_t stride = sparse2::Layout(sparse2::kChunk).size;
  for (std::size_t chunk = blockIdx.x; chunk * sparse2::kChunk < n; chunk += gridDim.x) {
    const std::size_t first = chunk * sparse2::kChunk, rest = n - first;
    const auto count = static_cast<unsigned>(rest < sparse2::kChunk ? rest : sparse2::kChunk);
    encode_sparse_chunk(group, in + first, count, scratch, out + chunk * stride);
  }
}

__global__ void outer_step(OuterStep step, const float* average, std::size_t n, float* momentum,
                           float* anchor) {
  for_each_quad(n, [&](std::size_t first) {
    const auto count = static_cast<unsigned>(n - first < kQuad ? n - first : kQuad);
    const Quad d = load_quad(average + first, 0, count);
    Quad m = load_quad(momentum + first, 0, count), theta = load_quad(anchor + first, 0, count);
    for (unsigned j = 0; j < kQuad; ++j) step(d.x[j], m.x[j], theta.x[j]);
    put_quad(m, 0, count, Overwrite{}, momentum + first);
    put_quad(theta, 0, count, Overwrite{}, anchor + first);
  });
}

Status told(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return Error{Code::kInternal, std::string("CUDA: ") + cudaGetErrorString(error)};
}

// Thread blocks for so many pieces of work of one thread block each: all, up to what keeps a large
// device busy several times over.
unsigned grid(std::size_t pieces) {
  constexpr std::size_t kMost = 132 * 64;
  return static_cast<unsigned>(std::clamp<std::size_t>(pieces, 1, kMost));
}
std::size_t pieces(std::size_t n, std::size_t each) { return (n + each - 1) / each; }

template <typename Block>
unsigned grid_of_blocks(std::size_t n) {
  return grid(pieces(n, std::size_t{Block::kValues} * (kThreads / kLanes)));
}
unsigned grid_of_quads(std::size_t n) { return grid(pieces(n, std::size_t{kThreads} * kQuad)); }

template <typename Block>
Status launch_encode(const float* in, std::size_t n, std::byte* out, cudaStream_t stream) {
  encode_blocks<Block><<<grid_of_blocks<Block>(n), kThreads, 0, stream>>>(in, n, out);
  return told(cudaGetLastError());
}

template <typename Format>
Status launch_encode_flat(const float* in, std::size_t n, std::byte* out, cudaStream_t stream) {
  encode_flat<Format><<<grid_of_quads(n), kThreads, 0, stream>>>(in, n, out);
  return told(cudaGetLastError());
}

template <typename Put>
struct Decoding {
  const std::byte* in;
  std::size_t n;
  Put put;
  float* out;
  int* damaged;
  cudaStream_t stream;

  template <typename Block>
  Status blocks() const {
    decode_blocks<Block>
        <<<grid_of_blocks<Block>(n), kThreads, 0, stream>>>(in, n, put, out, damaged);
    return told(cudaGetLastError());
  }
  template <typename Format>
  Status flat() const {
    decode_flat<Format><<<grid_of_quads(n), kThreads, 0, stream>>>(in, n, put, out, damaged);
    return told(cudaGetLastError());
  }
};

Status no_such_codec(CodecKind kind) {
  return Error{Code::kInternal, std::string("no dense codec: ") + to_string(kind)};
}

template <typename Put>
Status launch_decode(CodecKind kind, const Decoding<Put>& decoding) {
  switch (kind) {
    case CodecKind::kFp32:
      return decoding.template flat<formats::Fp32>();
    case CodecKind::kFp16:
      return decoding.template flat<formats::Fp16>();
    case CodecKind::kBf16:
      return decoding.template flat<formats::Bf16>();
    case CodecKind::kInt8:
      return decoding.template blocks<Int8Block>();
    case CodecKind::kInt4:
      return decoding.template blocks<NibbleBlock<formats::Int4>>();
    case CodecKind::kE3m0:
      return decoding.template blocks<NibbleBlock<formats::E3m0>>();
    case CodecKind::kSparse2:
      break;
  }
  return no_such_codec(kind);
}

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // the error was the answer
  return 0;
}

Status encode(CodecKind kind, const float* in, std::size_t n, std::byte* out, cudaStream_t stream) {
  if (n == 0) return {};
  switch (kind) {
    case CodecKind::kFp32:
      return launch_encode_flat<formats::Fp32>(in, n, out, stream);
    case CodecKind::kFp16:
      return launch_encode_flat<formats::Fp16>(in, n, out, stream);
    case CodecKind::kBf16:
      return launch_encode_flat<formats::Bf16>(in, n, out, stream);
    case CodecKind::kInt8:
      return launch_encode<Int8Block>(in, n, out, stream);
    case CodecKind::kInt4:
      return launch_encode<NibbleBlock<formats::Int4>>(in, n, out, stream);
    case CodecKind::kE3m0:
      return launch_encode<NibbleBlock<formats::E3m0>>(in, n, out, stream);
    case CodecKind::kSparse2:
      break;
  }
  return no_such_codec(kind);
}

Status decode(CodecKind kind, const std::byte* in, std::size_t n, float* out, int* damaged,
              cudaStream_t stream) {
  if (n == 0) return {};
  return launch_decode(kind, Decoding<Overwrite>{in, n, {}, out, damaged, stream});
}

Status accumulate(CodecKind kind, const std::byte* in, std::size_t n, float factor, float* sum,
                  int* damaged, cudaStream_t stream) {
  if (n == 0) return {};
  return launch_decode(kind, Decoding<Accumulate>{in, n, {factor}, sum, damaged, stream});
}

Status sparse2_encode(const float* in, std::size_t n, std::byte* out, cudaStream_t stream) {
  if (n == 0) return {};
  encode_sparse<<<grid(pieces(n, sparse2::kChunk)), kThreads, 0, stream>>>(in, n, out);
  return told(cudaGetLastError());
}

Status nesterov_step(const OuterSpec& options, const float* average, std::size_t n, float* momentum,
                     float* anchor, cudaStream_t stream) {
  if (n == 0) return {};
  const OuterStep step{static_cast<float>(options.lr), static_cast<float>(options.momentum)};
  outer_step<<<grid_of_quads(n), kThreads, 0, stream>>>(step, average, n, momentum, anchor);
  return told(cudaGetLastError());
}

}  // namespace shoal::outer_opt::cuda
