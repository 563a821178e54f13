// The list of variants.h. Shapes differ in threads per block and in how many blocks there are: as
// many as the values ask for, or few that go round.
#include "bench/kernels/radix_select.h"
#include "bench/kernels/variants.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/cuda/kernels.cuh"

namespace shoal::outer_opt::cuda {
namespace {

template <unsigned kSize>
struct RadixBlock : ThreadBlock<kSize> {
  using ThreadBlock<kSize>::ThreadBlock;
  __device__ void set_bits(std::uint32_t* shared, std::uint32_t bits) const {
    atomicOr(shared, bits);
  }
};

template <unsigned kSize>
__global__ void encode_radix(const float* in, std::size_t n, std::byte* out) {
  __shared__ Uninitialised<RadixScratch> scratch;
  __shared__ BlockSums<kSize> sums;
  RadixBlock<kSize> group(sums);
  for_each_chunk(in, n, out, [&](const float* values, unsigned count, std::byte* to) {
    encode_radix_chunk(group, values, count, scratch.get(), to);
  });
}

template <unsigned kSize>
Status launch_radix(const Shape& shape, const float* in, std::size_t n, std::byte* out,
                    cudaStream_t stream) {
  encode_radix<kSize><<<blocks_for(shape, n, sparse2::kChunk), kSize, 0, stream>>>(in, n, out);
  return told(cudaGetLastError());
}

}  // namespace
}  // namespace shoal::outer_opt::cuda

namespace shoal::bench {
namespace {

using namespace outer_opt::cuda;

constexpr double kElementwise = 0.85, kTopK = 0.40, kOuterStepMs = 10;

struct NamedShape {
  const char* name;
  Shape shape;
};
constexpr NamedShape kShapes[] = {{"256 threads", {}},
                                  {"128 threads", {128, 132 * 128}},
                                  {"512 threads", {512, 132 * 32}},
                                  {"256 threads, few blocks", {256, 132 * 8}}};

std::string name_of(const char* task, CodecKind codec) {
  return std::string(to_string(codec)) + " " + task;
}

void add_codec(std::vector<KernelVariant>& all, CodecKind kind) {
  for (const auto& [name, shape] : kShapes) {
    all.push_back({name_of("encode", kind), name, KernelTask::kEncode, kind, kElementwise, 0,
                   [kind, shape = shape](const KernelVectors& v, cudaStream_t stream) {
                     return launch_dense(kind, Encoding{shape, v.in, v.n, v.encoded, stream});
                   }});
  }
  for (const auto& [name, shape] : kShapes) {
    all.push_back({name_of("decode", kind), name, KernelTask::kDecode, kind, kElementwise, 0,
                   [kind, shape = shape](const KernelVectors& v, cudaStream_t stream) {
                     return launch_dense(
                         kind,
                         Decoding<Overwrite>{shape, v.encoded, v.n, {}, v.sum, v.damaged, stream});
                   }});
  }
  for (const auto& [name, shape] : kShapes) {
    all.push_back({name_of("accumulate", kind), name, KernelTask::kAccumulate, kind, kElementwise,
                   0, [kind, shape = shape](const KernelVectors& v, cudaStream_t stream) {
                     return launch_dense(
                         kind,
                         Decoding<Accumulate>{
                             shape, v.encoded, v.n, {kBenchFactor}, v.sum, v.damaged, stream});
                   }});
  }
}

template <unsigned kSize>
void add_sparse(std::vector<KernelVariant>& all) {
  const std::string threads = ", " + std::to_string(kSize) + " threads";
  all.push_back({"sparse2 encode", "bisection" + threads, KernelTask::kEncode, CodecKind::kSparse2,
                 kTopK, 0, [](const KernelVectors& v, cudaStream_t stream) {
                   return launch_sparse<kSize>({}, v.in, v.n, v.encoded, stream);
                 }});
  all.push_back({"sparse2 encode", "radix" + threads, KernelTask::kEncode, CodecKind::kSparse2,
                 kTopK, 0, [](const KernelVectors& v, cudaStream_t stream) {
                   return launch_radix<kSize>({}, v.in, v.n, v.encoded, stream);
                 }});
}

template <unsigned kAhead>
void add_outer_step(std::vector<KernelVariant>& all) {
  for (const auto& [name, shape] : kShapes) {
    const std::string ahead = ", " + std::to_string(kAhead) + (kAhead > 1 ? " quads" : " quad");
    all.push_back({"outer step", name + ahead, KernelTask::kOuterStep, CodecKind::kFp32,
                   kElementwise, kOuterStepMs,
                   [shape = shape](const KernelVectors& v, cudaStream_t stream) {
                     return launch_outer_step<kAhead>(shape, kBenchOuter, v.in, v.n, v.momentum,
                                                      v.sum, stream);
                   }});
  }
}

}  // namespace

std::vector<KernelVariant> kernel_variants() {
  std::vector<KernelVariant> all;
  for (const CodecKind kind : outer_opt::kDenseCodecs) add_codec(all, kind);
  add_sparse<256>(all);
  add_sparse<128>(all);
  add_sparse<512>(all);
  add_outer_step<1>(all);
  add_outer_step<2>(all);
  add_outer_step<4>(all);
  return all;
}

}  // namespace shoal::bench
