// The CUDA kernels of the outer step on device 0. Each variant is first held to the bytes of the
// CPU, then timed with events against the time that cudaMemcpy takes, device to device, to move as
// many bytes: those that the kernel reads and those that it writes. The time is that of one launch;
// the median of the repetitions counts.
#include "bench/kernels/kernels_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/prng.h"
#include "bench/kernels/variants.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/cuda/device_codec.h"

namespace shoal::bench {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

constexpr std::size_t kChecked = 1'000'003;  // many blocks, and a tail
constexpr std::size_t kVectors = 4;          // of a KernelVectors, each as long as fp32 values
constexpr std::size_t kShiftMax = 4;         // of a KernelVariant

struct Timing {
  KernelVariant variant;
  double ms = 0, copy_ms = 0;
  std::size_t n = 0, moved = 0;  // values, bytes
  double of_copy() const { return copy_ms / ms; }
  bool met() const {
    const double ms_of_2_30 = ms * 0x1p30 / static_cast<double>(n);
    return of_copy() >= variant.target && (variant.ms_max == 0 || ms_of_2_30 <= variant.ms_max);
  }
};

Status told(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return Error{Code::kInternal, std::string("CUDA: ") + cudaGetErrorString(error), "", ""};
}

std::size_t encoded_bytes(const KernelVariant& variant, std::size_t n) {
  if (variant.codec == CodecKind::kSparse2) return outer_opt::sparse2_size(n);
  return outer_opt::codec(variant.codec).encoded_size(n);
}

std::size_t bytes_moved(const KernelVariant& variant, std::size_t n) {
  const std::size_t vector = n * sizeof(float);
  switch (variant.task) {
    case KernelTask::kEncode:
    case KernelTask::kDecode:
      return vector + encoded_bytes(variant, n);
    case KernelTask::kAccumulate:
      return 2 * vector + encoded_bytes(variant, n);
    case KernelTask::kOuterStep:
      return 5 * vector;
    case KernelTask::kDifference:
    case KernelTask::kAdopt:
      return 3 * vector;
    case KernelTask::kScale:
      return 2 * vector;
    case KernelTask::kStatistics:
      return vector;
  }
  return 0;
}

// All memory of the benchmark in one piece, so that a copy of many bytes has room, too.
class Arena {
 public:
  ~Arena() { cudaFree(base_); }
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Status take(std::size_t n) {
    n_ = n;
    stride_ = ((n + kShiftMax) * sizeof(float) + 255) / 256 * 256;
    return told(cudaMalloc(reinterpret_cast<void**>(&base_), size() + 256));
  }
  std::size_t size() const { return kVectors * stride_; }
  std::byte* base() const { return base_; }
  KernelVectors vectors(const KernelVariant& variant, std::size_t n) const {
    const auto at = [&](std::size_t i) {
      return reinterpret_cast<float*>(base_ + i * stride_) + variant.shift;
    };
    return {n, at(0), at(1), at(2), base_ + 3 * stride_, reinterpret_cast<int*>(base_ + size())};
  }
  std::size_t n() const { return n_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t n_ = 0, stride_ = 0;
};

// ---- the same bytes as the CPU

std::vector<float> normal(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.normal() * 1e-3);
  return values;
}

// What goes in, and what the CPU makes of it.
struct Sample {
  std::vector<float> in = normal(kChecked, 1), sum = normal(kChecked, 2),
                     momentum = normal(kChecked, 3);
  std::vector<std::byte> encoded;
};

Sample expected_of(const KernelVariant& variant, const Sample& before) {
  Sample after = before;
  switch (variant.task) {
    case KernelTask::kEncode:
      break;  // encoded already
    case KernelTask::kDecode:
      static_cast<void>(outer_opt::codec(variant.codec).decode(before.encoded, after.sum));
      break;
    case KernelTask::kAccumulate:
      static_cast<void>(
          outer_opt::codec(variant.codec).accumulate(before.encoded, kBenchFactor, after.sum));
      break;
    case KernelTask::kOuterStep:
      outer_opt::nesterov_step(kBenchOuter, before.in, after.momentum, after.sum);
      break;
    case KernelTask::kDifference:
      std::ranges::transform(before.in, before.momentum, after.sum.begin(), std::minus());
      break;
    case KernelTask::kAdopt:
      outer_opt::adopt({{0, std::ssize(after.sum)}}, kBenchBlend, before.in, after.sum);
      break;
    case KernelTask::kScale:
      for (float& value : after.sum) value *= kBenchFactor;
      break;
    case KernelTask::kStatistics:
      break;  // check_statistics()
  }
  return after;
}

void encode_on_cpu(const KernelVariant& variant, Sample& sample) {
  sample.encoded.resize(encoded_bytes(variant, kChecked));
  if (variant.codec == CodecKind::kSparse2) {
    outer_opt::sparse2_encode(sample.in, sample.encoded);
  } else {
    outer_opt::codec(variant.codec).encode(sample.in, sample.encoded);
  }
}

template <typename T>
Status upload(const std::vector<T>& from, void* to) {
  return told(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
}

template <typename T>
bool holds(const void* on_device, const std::vector<T>& expected) {
  std::vector<T> there(expected.size());
  const std::size_t size = there.size() * sizeof(T);
  return cudaMemcpy(there.data(), on_device, size, cudaMemcpyDeviceToHost) == cudaSuccess &&
         std::memcmp(there.data(), expected.data(), size) == 0;
}

// The sum of squares may be made in any order.
bool holds_statistics(const void* on_device, const std::vector<float>& values) {
  std::vector<outer_opt::cuda::PartialStatistics> parts(outer_opt::cuda::kStatisticsParts);
  const std::size_t size = parts.size() * sizeof parts[0];
  if (cudaMemcpy(parts.data(), on_device, size, cudaMemcpyDeviceToHost) != cudaSuccess) {
    return false;
  }
  const outer_opt::VectorStatistics statistics = outer_opt::cuda::statistics_of(parts);
  double squares = 0, most = 0;
  for (const float value : values) {
    const auto v = static_cast<double>(value);
    squares += v * v;
    most = std::max(most, std::abs(v));
  }
  const double norm = std::sqrt(squares);
  return statistics.nonfinite == 0 && statistics.max_abs == most &&
         std::abs(statistics.norm - norm) <= 1e-12 * norm;
}

Status check_bytes(const KernelVariant& variant, const Arena& arena) {
  Sample before;
  encode_on_cpu(variant, before);
  const Sample after = expected_of(variant, before);
  const KernelVectors v = arena.vectors(variant, kChecked);
  const bool encodes = variant.task == KernelTask::kEncode;
  const std::vector<std::byte> empty(before.encoded.size());
  for (const Status& status :
       {upload(before.in, v.in), upload(before.sum, v.sum), upload(before.momentum, v.momentum),
        upload(encodes ? empty : before.encoded, v.encoded), variant.launch(v, nullptr),
        told(cudaDeviceSynchronize())}) {
    if (!status) return status;
  }
  const bool result = variant.task == KernelTask::kStatistics
                          ? holds_statistics(v.encoded, before.in)
                          : holds(v.encoded, after.encoded);
  if (result && holds(v.sum, after.sum) && holds(v.momentum, after.momentum)) return {};
  return Error{Code::kDataLoss,
               variant.kernel + ", " + variant.shape + ": not the bytes of the CPU", "", ""};
}

// ---- times

class Stopwatch {
 public:
  Stopwatch() { cudaEventCreate(&start_), cudaEventCreate(&end_); }
  ~Stopwatch() { cudaEventDestroy(start_), cudaEventDestroy(end_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // The median time of one call of `work`; the first call is not counted.
  template <typename Work>
  Result<double> median_ms(int repeats, const Work& work) {
    std::vector<double> times;
    for (int i = 0; i <= repeats; ++i) {
      float ms = 0;
      cudaEventRecord(start_);
      if (Status status = work(); !status) return status.error();
      cudaEventRecord(end_);
      if (Status status = told(cudaEventSynchronize(end_)); !status) return status.error();
      cudaEventElapsedTime(&ms, start_, end_);
      if (i > 0) times.push_back(static_cast<double>(ms));
    }
    return median(std::move(times));
  }

 private:
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

// A copy reads and writes each byte. If there is no room for so many bytes, the time is scaled up.
Result<double> copy_ms(Stopwatch& watch, const Arena& arena, std::size_t moved, int repeats) {
  const std::size_t wanted = moved / 2, size = std::min(wanted, arena.size() / 2);
  const auto ms = watch.median_ms(repeats, [&] {
    return told(cudaMemcpyAsync(arena.base() + arena.size() / 2, arena.base(), size,
                                cudaMemcpyDeviceToDevice));
  });
  if (!ms) return ms.error();
  return *ms * static_cast<double>(wanted) / static_cast<double>(size);
}

// Normal values everywhere and their encoding, whatever ran before.
Status refill(const KernelVariant& variant, const Arena& arena) {
  const std::vector<float> values = normal(1 << 20, 7);
  const std::size_t piece = values.size() * sizeof(float);
  if (Status first = upload(values, arena.base()); !first) return first;
  for (std::size_t at = piece; at < arena.size(); at += piece) {
    const std::size_t size = std::min(piece, arena.size() - at);
    const Status copied =
        told(cudaMemcpy(arena.base() + at, arena.base(), size, cudaMemcpyDeviceToDevice));
    if (!copied) return copied;
  }
  if (variant.task != KernelTask::kDecode && variant.task != KernelTask::kAccumulate) return {};
  const KernelVectors v = arena.vectors(variant, arena.n());
  return outer_opt::cuda::encode(variant.codec, v.in, v.n, v.encoded, nullptr);
}

Result<Timing> measure(const KernelVariant& variant, const Arena& arena, Stopwatch& watch,
                       double copy, int repeats) {
  const KernelVectors vectors = arena.vectors(variant, arena.n());
  const auto ms = watch.median_ms(repeats, [&] { return variant.launch(vectors, nullptr); });
  if (!ms) return ms.error();
  return Timing{variant, *ms, copy, arena.n(), bytes_moved(variant, arena.n())};
}

// Variants of one kernel follow on each other and share the measurement of the copy.
Result<std::vector<Timing>> measure_all(const KernelsOptions& options, const Arena& arena) {
  Stopwatch watch;
  std::vector<Timing> timings;
  double copy = 0;
  std::string kernel;
  for (const KernelVariant& variant : kernel_variants()) {
    if (Status same = check_bytes(variant, arena); !same) return same.error();
    if (variant.kernel != kernel) {
      kernel = variant.kernel;
      const auto ms = copy_ms(watch, arena, bytes_moved(variant, arena.n()), options.repeats);
      if (!ms) return ms.error();
      copy = *ms;
    }
    if (Status filled = refill(variant, arena); !filled) return filled.error();
    auto timing = measure(variant, arena, watch, copy, options.repeats);
    if (!timing) return timing.error();
    timings.push_back(std::move(*timing));
  }
  return timings;
}

// ---- what is printed

void print_table(const cudaDeviceProp& device, std::size_t n, const std::vector<Timing>& timings) {
  std::printf("%s, %zu values; every variant has the bytes of the CPU\n", device.name, n);
  std::printf("%-18s %-34s %9s %9s %8s %8s\n", "kernel", "variant", "ms", "GB/s", "of copy",
              "target");
  for (const Timing& t : timings) {
    std::printf("%-18s %-34s %9.3f %9.0f %6.0f %% %5.0f %% %s\n", t.variant.kernel.c_str(),
                t.variant.shape.c_str(), t.ms, static_cast<double>(t.moved) / t.ms * 1e-6,
                100 * t.of_copy(), 100 * t.variant.target, t.met() ? "met" : "missed");
  }
}

void print_json(const cudaDeviceProp& device, std::size_t n, const std::vector<Timing>& timings) {
  nlohmann::ordered_json json = {
      {"name", "kernels"}, {"device", device.name}, {"values", n}, {"results", nullptr}};
  for (const Timing& t : timings) {
    json["results"].push_back({{"kernel", t.variant.kernel},
                               {"variant", t.variant.shape},
                               {"ms", t.ms},
                               {"bytes_moved", t.moved},
                               {"copy_ms", t.copy_ms},
                               {"of_copy", t.of_copy()},
                               {"target", t.variant.target},
                               {"ms_max_of_2_30", t.variant.ms_max},
                               {"met", t.met()}});
  }
  std::printf("%s\n", json.dump(2).c_str());
}

// What fits the device beside what others hold of it.
std::size_t values_that_fit(std::size_t wanted) {
  std::size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  return std::max(kChecked, std::min(wanted, available / 10 * 9 / (kVectors * sizeof(float))));
}

}  // namespace

Status run_kernels(const KernelsOptions& options) {
  cudaDeviceProp device{};
  if (Status known = told(cudaGetDeviceProperties(&device, 0)); !known) return known;
  Arena arena;
  const std::size_t n = values_that_fit(static_cast<std::size_t>(options.values));
  if (Status taken = arena.take(n); !taken) return taken;
  const auto timings = measure_all(options, arena);
  if (!timings) return timings.error();
  options.json ? print_json(device, n, *timings) : print_table(device, n, *timings);
  return {};
}

}  // namespace shoal::bench
