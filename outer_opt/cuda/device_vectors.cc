// See device_vectors.h.
#include "outer_opt/cuda/device_vectors.h"

#include <algorithm>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/cuda/device_butterfly.h"

namespace shoal::outer_opt {
namespace {

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

bool DeviceVectors::suits(const OuterOptimizer* optimizer, const SyncSpec& sync) {
  const bool has_kernel = optimizer != nullptr && optimizer->kernel() != OuterKernel::kNone;
  const bool summed = sync.topology != Topology::kMoshpit && sync.topology != Topology::kGossip;
  return has_kernel && summed && sync.codec != CodecKind::kSparse2 &&
         sync.aggregator == Aggregator::kMean && !sync.eager &&
         sync.outer_state == OuterState::kReplicated;
}

Result<std::shared_ptr<DeviceVectors>> DeviceVectors::create(Accelerator& device,
                                                             std::int64_t values,
                                                             std::size_t state_vectors) {
  std::shared_ptr<DeviceVectors> all(new DeviceVectors(device));
  all->state_.resize(state_vectors);
  std::vector<DeviceMemory<float>*> vectors{&all->anchor_, &all->pseudo_gradient_, &all->average_};
  for (DeviceMemory<float>& vector : all->state_) vectors.push_back(&vector);
  for (DeviceMemory<float>* vector : vectors) {
    auto memory = DeviceMemory<float>::allocate(device, MemoryKind::kDevice, size(values));
    if (!memory) return memory.error();
    *vector = std::move(*memory);
  }
  using Partial = DeviceMemory<cuda::PartialStatistics>;
  auto partial = Partial::allocate(device, MemoryKind::kDevice, cuda::kStatisticsParts);
  if (!partial) return partial.error();
  auto pinned = Partial::allocate(device, MemoryKind::kPinned, cuda::kStatisticsParts);
  if (!pinned) return pinned.error();
  auto ferry = Ferry::create(device);
  if (!ferry) return ferry.error();
  auto queue = device.make_queue();
  if (!queue) return queue.error();
  all->partial_ = std::move(*partial);
  all->pinned_partial_ = std::move(*pinned);
  all->ferry_ = std::move(*ferry);
  all->queue_ = std::move(*queue);
  return all;
}

Status DeviceVectors::load(std::span<const float> anchor, const NamedVectors& state) {
  SHOAL_CHECK(anchor.size() == anchor_.size() && state.size() == state_.size());
  if (Status loaded = ferry_->upload(anchor, anchor_.data()); !loaded) return loaded;
  for (std::size_t v = 0; v < state.size(); ++v) {
    SHOAL_CHECK(state[v].values.size() == anchor.size());
    if (Status loaded = ferry_->upload(state[v].values, state_[v].data()); !loaded) return loaded;
  }
  return {};
}

Result<VectorStatistics> DeviceVectors::measure(const float* values, std::size_t count) {
  queue_->measure(values, count, partial_.data());
  queue_->download(partial_.data(), partial_.size() * sizeof(cuda::PartialStatistics),
                   pinned_partial_.data());
  if (Status done = queue_->wait(); !done) return done.error();
  return cuda::statistics_of(pinned_partial_.span());
}

Result<VectorStatistics> DeviceVectors::take_pseudo_gradient(const float* local,
                                                             const Fragment& fragment) {
  std::size_t packed = 0;
  for (const ValueRange& range : fragment) {
    queue_->difference(anchor_.data() + range.first, local + range.first, size(range.count),
                       pseudo_gradient_.data() + packed);
    packed += size(range.count);
  }
  auto statistics = measure(pseudo_gradient_.data(), packed);
  if (!statistics || packed == anchor_.size()) return statistics;
  const auto everywhere = measure(local, anchor_.size());
  if (!everywhere) return everywhere.error();
  statistics->nonfinite += everywhere->nonfinite;
  return statistics;
}

Result<std::unique_ptr<ReduceSession>> DeviceVectors::make_session(const ReducePlan& plan,
                                                                   ReplicaId self,
                                                                   bool contributes) {
  SHOAL_CHECK(DeviceButterfly::suits(plan));
  if (plan.value_count < 0 || size(plan.value_count) > average_.size()) {
    return refused_plan("value_count", "the plan has more values than the replica");
  }
  ReduceInput input;
  if (contributes) input.pseudo_gradient = pseudo_gradient_.span().first(size(plan.value_count));
  const auto average = average_.span().first(size(plan.value_count));
  const Status fits = ButterflySession::check(plan, self, plan.frame_values, input, average.size());
  if (!fits) return fits.error();
  return std::unique_ptr<ReduceSession>(std::make_unique<DeviceButterfly>(
      plan, self, plan.frame_values, input, average, lanes_, shared_from_this()));
}

Status DeviceVectors::read_pseudo_gradient(std::span<float> out) {
  return ferry_->download(pseudo_gradient_.data(), out);
}

Status DeviceVectors::read_average(std::span<float> out) {
  return ferry_->download(average_.data(), out);
}

Status DeviceVectors::write_average(std::span<const float> in) {
  return ferry_->upload(in, average_.data());
}

Status DeviceVectors::read(std::int64_t first, std::span<float> pseudo_gradient,
                           std::span<float> average) {
  const Status got = ferry_->download(pseudo_gradient_.data() + first, pseudo_gradient);
  return got ? ferry_->download(average_.data() + first, average) : got;
}

// The kernel of each optimizer that has one.
void DeviceVectors::queue_step(const OuterOptimizer& optimizer, const StepTerms& terms,
                               const ValueRange& range, const float* average) {
  switch (optimizer.kernel()) {
    case OuterKernel::kNesterov:
      return queue_->nesterov_step({terms.outer_lr, optimizer.spec().momentum}, average,
                                   size(range.count), state_.at(0).data() + range.first,
                                   anchor_.data() + range.first);
    case OuterKernel::kNone:
      break;
  }
  SHOAL_CHECK(false, "the optimizer has no kernel");
}

Status DeviceVectors::step(const OuterOptimizer& optimizer, const StepTerms& terms,
                           const Fragment& fragment, NamedVectors& state, std::span<float> anchor) {
  SHOAL_CHECK(state.size() == state_.size());
  std::size_t packed = 0;
  for (const ValueRange& range : fragment) {
    queue_step(optimizer, terms, range, average_.data() + packed);
    packed += size(range.count);
  }
  if (Status done = queue_->wait(); !done) return done;
  for (const ValueRange& range : fragment) {
    const auto first = size(range.first), count = size(range.count);
    Status copied = ferry_->download(anchor_.data() + first, anchor.subspan(first, count));
    for (std::size_t v = 0; copied && v < state.size(); ++v) {
      copied = ferry_->download(state_[v].data() + first,
                                std::span(state[v].values).subspan(first, count));
    }
    if (!copied) return copied;
  }
  return {};
}

Status DeviceVectors::adopt(const Fragment& fragment, double blend, float* local) {
  for (const ValueRange& range : fragment) {
    queue_->adopt(blend, anchor_.data() + range.first, size(range.count), local + range.first);
  }
  return queue_->wait();
}

}  // namespace shoal::outer_opt
