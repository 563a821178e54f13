// The list of variants.h: how much a thread loads before it works, threads per block, and how many
// blocks there are: as many as the values ask for, or few that go round.
#include <algorithm>
#include <type_traits>

#include "bench/kernels/variants.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/cuda/kernels.cuh"

namespace shoal::bench {
namespace {

using namespace outer_opt::cuda;

constexpr double kElementwise = 0.85, kTopK = 0.40, kOuterStepMs = 10;
// What starts anywhere takes single values: more instructions, the same bytes.
constexpr double kUnaligned = 0.5;

using Vectors = KernelVectors;
constexpr Shape kFewBlocks{256, 132 * 8};  // that go round
constexpr Shape kSmallBlocks{128, 132 * 128};

// Collects the variants of one kernel.
struct Kernel {
  std::vector<KernelVariant>& all;
  std::string name;
  KernelTask task;
  CodecKind codec = CodecKind::kFp32;
  double ms_max = 0, target = kElementwise;

  template <typename Launch>
  void add(const char* shape, Launch launch) const {
    all.push_back({name, shape, task, codec, target, ms_max, 0, launch});
  }
  // The one in use, from vectors that begin at a multiple of 16 bytes and from others.
  template <typename Launch>
  void add_in_use(Launch launch) const {
    add("in use", launch);
    all.push_back(
        {name, "in use, unaligned", task, codec, std::min(target, kUnaligned), 0, 1, launch});
  }
  // `launch` takes a Shape and how much is loaded ahead, as a constant.
  template <typename Launch>
  void add_others(Launch launch) const {
    const auto shaped = [launch](Shape shape, auto ahead) {
      return [=](const Vectors& v, cudaStream_t stream) { return launch(shape, ahead, v, stream); };
    };
    add("1 ahead", shaped({}, Ahead<1>()));
    add("4 ahead", shaped({}, Ahead<4>()));
    add("2 ahead, few blocks", shaped(kFewBlocks, Ahead<2>()));
    add("2 ahead, 128 threads", shaped(kSmallBlocks, Ahead<2>()));
  }

  template <unsigned kCount>
  using Ahead = std::integral_constant<unsigned, kCount>;
};

std::string name_of(const char* task, CodecKind codec) {
  return std::string(to_string(codec)) + " " + task;
}

void add_encode(std::vector<KernelVariant>& all, CodecKind kind) {
  const Kernel kernel{all, name_of("encode", kind), KernelTask::kEncode, kind};
  kernel.add_in_use([kind](const Vectors& v, cudaStream_t stream) {
    return encode(kind, v.in, v.n, v.encoded, stream);
  });
  kernel.add_others([kind](Shape shape, auto ahead, const Vectors& v, cudaStream_t stream) {
    return launch_dense(kind, Encoding<ahead.value>{shape, v.in, v.n, v.encoded, stream});
  });
}

void add_decode(std::vector<KernelVariant>& all, CodecKind kind) {
  const Kernel kernel{all, name_of("decode", kind), KernelTask::kDecode, kind};
  kernel.add_in_use([kind](const Vectors& v, cudaStream_t stream) {
    return decode(kind, v.encoded, v.n, v.sum, v.damaged, stream);
  });
  kernel.add_others([kind](Shape shape, auto ahead, const Vectors& v, cudaStream_t stream) {
    return launch_dense(kind, Decoding<ahead.value, Overwrite>{
                                  shape, v.encoded, v.n, {}, v.sum, v.damaged, stream});
  });
}

void add_accumulate(std::vector<KernelVariant>& all, CodecKind kind) {
  const Kernel kernel{all, name_of("accumulate", kind), KernelTask::kAccumulate, kind};
  kernel.add_in_use([kind](const Vectors& v, cudaStream_t stream) {
    return accumulate(kind, v.encoded, v.n, kBenchFactor, v.sum, v.damaged, stream);
  });
  kernel.add_others([kind](Shape shape, auto ahead, const Vectors& v, cudaStream_t stream) {
    return launch_dense(kind, Decoding<ahead.value, Accumulate>{
                                  shape, v.encoded, v.n, {kBenchFactor}, v.sum, v.damaged, stream});
  });
}

void add_outer_step(std::vector<KernelVariant>& all) {
  const Kernel kernel{all, "outer step", KernelTask::kOuterStep, CodecKind::kFp32, kOuterStepMs};
  kernel.add_in_use([](const Vectors& v, cudaStream_t stream) {
    return nesterov_step(kBenchOuter, v.in, v.n, v.momentum, v.sum, stream);
  });
  kernel.add_others([](Shape shape, auto ahead, const Vectors& v, cudaStream_t stream) {
    return launch_outer_step<ahead.value>(shape, kBenchOuter, v.in, v.n, v.momentum, v.sum, stream);
  });
}

void add_maps(std::vector<KernelVariant>& all) {
  const Kernel apart{all, "difference", KernelTask::kDifference};
  apart.add_in_use([](const Vectors& v, cudaStream_t stream) {
    return difference(v.in, v.momentum, v.n, v.sum, stream);
  });
  apart.add_others([](Shape shape, auto ahead, const Vectors& v, cudaStream_t stream) {
    const Map<2, Minus> each{{v.in, v.momentum}, v.sum, {}};
    return launch_each<ahead.value>(shape, v.n, each, stream);
  });
  Kernel{all, "adopt", KernelTask::kAdopt}.add_in_use([](const Vectors& v, cudaStream_t stream) {
    return adopt(kBenchBlend, v.in, v.n, v.sum, stream);
  });
  Kernel{all, "scale", KernelTask::kScale}.add_in_use([](const Vectors& v, cudaStream_t stream) {
    return scale(kBenchFactor, v.n, v.sum, stream);
  });
  const Kernel statistics{all, "statistics", KernelTask::kStatistics};
  statistics.add_in_use([](const Vectors& v, cudaStream_t stream) {
    return measure(v.in, v.n, reinterpret_cast<PartialStatistics*>(v.encoded), stream);
  });
}

template <unsigned kSize>
void add_sparse(std::vector<KernelVariant>& all) {
  const std::string threads = std::to_string(kSize) + " threads";
  all.push_back({"sparse2 encode", threads, KernelTask::kEncode, CodecKind::kSparse2, kTopK, 0, 0,
                 [](const Vectors& v, cudaStream_t stream) {
                   return launch_sparse<kSize>({}, v.in, v.n, v.encoded, stream);
                 }});
}

}  // namespace

std::vector<KernelVariant> kernel_variants() {
  std::vector<KernelVariant> all;
  for (const CodecKind kind : outer_opt::kDenseCodecs) {
    add_encode(all, kind);
    add_decode(all, kind);
    add_accumulate(all, kind);
  }
  const Kernel sparse{all, "sparse2 encode", KernelTask::kEncode, CodecKind::kSparse2, 0, kTopK};
  sparse.add_in_use([](const Vectors& v, cudaStream_t stream) {
    return sparse2_encode(v.in, v.n, v.encoded, stream);
  });
  add_sparse<64>(all);
  add_sparse<128>(all);
  add_sparse<256>(all);
  add_outer_step(all);
  add_maps(all);
  return all;
}

}  // namespace shoal::bench
