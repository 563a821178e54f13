// See block_timing.h.
#include "trainer/model/block_timing.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/slowdown.h"
#include "trainer/model/torch_pch.h"
#include "trainer/plain/blas.h"
#if SHOAL_TORCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace shoal::trainer {
namespace {

constexpr double kPart_s = 0.25;  // of timed passes, for each of the three parts
constexpr int kPassesMin = 3;
constexpr double kLong_s = 1;          // of one sequence
constexpr double kWeightScale = 0.02;  // zeros would take a GPU less power, and so less time

using Pass = std::function<void(std::int64_t sequences)>;

class PartTimer {
 public:
  PartTimer(const BlockShape& shape, const DeviceChoice& choice)
      : shape_(shape),
        choice_(choice),
        spec_(one_block_job(shape)),
        device_(choice.kind == DeviceKind::kCpu
                    ? torch::Device(torch::kCPU)
                    : torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(choice.ordinal))) {}

  // Its gradient has a row for every token of the vocabulary, however short the microbatch is.
  Duration embedding() {
    Model model = part({0, 1});
    const auto tokens = random_tokens();
    return timed(
        [&](std::int64_t sequences) {
          const auto output = model.hidden(tokens.narrow(0, 0, sequences));
          output.backward(torch::ones_like(output));
        },
        shape_.microbatch);
  }

  Duration block() {
    Model model = part({1, 2});
    if (shape_.recompute == Recompute::kRecompute) model.network().recompute_blocks();
    const auto values = random_values();
    return timed([&](std::int64_t sequences) {
      const auto output = model.hidden(leaf(values, sequences));
      output.backward(torch::ones_like(output));
    });
  }

  Duration head() {
    Model model = part({2, 3});
    const auto values = random_values(), targets = random_tokens();
    return timed([&](std::int64_t sequences) {
      model.loss(leaf(values, sequences), targets.narrow(0, 0, sequences), 1.0).backward();
    });
  }

 private:
  Model part(UnitRange units) const {
    Model model(spec_.model, units, shape_.precision, device_);
    model.flat().normal_(0, kWeightScale);
    return model;
  }
  torch::Tensor random_values() const {
    return torch::randn({shape_.microbatch, shape_.context, shape_.hidden},
                        torch::TensorOptions().device(device_));
  }
  torch::Tensor random_tokens() const {
    return torch::randint(shape_.vocab, {shape_.microbatch, shape_.context},
                          torch::TensorOptions().dtype(torch::kInt64).device(device_));
  }
  // Its gradient is computed, as that of a stage's input is.
  static torch::Tensor leaf(const torch::Tensor& values, std::int64_t sequences) {
    return values.narrow(0, 0, sequences).detach().set_requires_grad(true);
  }

  double seconds_of(const Pass& pass, std::int64_t sequences) const {
    const auto start = std::chrono::steady_clock::now();
    {
      const SlowedPiece piece(choice_.speed);
      pass(sequences);
      if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // The median, because other processes of the host disturb single passes; of as many sequences,
  // `least` or more, as fit the time.
  Duration timed(const Pass& pass, std::int64_t least = 1) const {
    // Allocations, and kernels that are loaded; beside a second of work they hardly count.
    double first = seconds_of(pass, least);
    if (first < kLong_s) first = seconds_of(pass, least);
    const double fit = static_cast<double>(least) * kPart_s / kPassesMin / first;
    const auto sequences = static_cast<std::int64_t>(
        std::clamp(fit, static_cast<double>(least), static_cast<double>(shape_.microbatch)));
    std::vector<double> passes{first};
    if (sequences > least) passes = {}, seconds_of(pass, sequences);
    for (double sum = first;
         first < kPart_s && (sum < kPart_s || std::ssize(passes) < kPassesMin);) {
      passes.push_back(seconds_of(pass, sequences));
      sum += passes.back();
    }
    const auto middle = passes.begin() + static_cast<std::ptrdiff_t>(passes.size() / 2);
    std::nth_element(passes.begin(), middle, passes.end());
    return seconds_f(*middle * static_cast<double>(shape_.microbatch) /
                     static_cast<double>(sequences));
  }

  BlockShape shape_;
  DeviceChoice choice_;
  JobSpec spec_;
  torch::Device device_;
};

bool is_possible(const BlockShape& s) {
  return std::min({s.hidden, s.heads, s.kv_heads, s.head_dim, s.ffn, s.context, s.vocab,
                   s.microbatch}) > 0 &&
         s.heads % s.kv_heads == 0;
}

void release_memory(const DeviceChoice& choice) {
#if SHOAL_TORCH_CUDA
  if (choice.kind == DeviceKind::kCuda) c10::cuda::CUDACachingAllocator::emptyCache();
#else
  (void)choice;
#endif
}

}  // namespace

MaybeFailure time_block(const BlockShape& shape, const DeviceChoice& choice, BlockTimes& out) {
  if (!is_possible(shape)) {
    return Failure{ReplicaFailure::kModelDoesNotFit, "no model has a block of this shape"};
  }
  if (shape.precision == Precision::kBf16 && !has_bf16(choice)) {
    return Failure{ReplicaFailure::kModelDoesNotFit, "the device has no bf16"};
  }
  const MaybeFailure failure = guarded([&] {
    at::set_num_threads(choice.threads);
    set_blas_threads(choice.threads);
    PartTimer timer(shape, choice);
    out = {timer.block(), timer.embedding(), timer.head()};
  });
  release_memory(choice);
  return failure;
}

}  // namespace shoal::trainer
