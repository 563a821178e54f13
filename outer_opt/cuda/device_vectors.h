// What a replica needs for its outer steps, on the device that it trains on: anchor, the vectors of
// the outer optimizer, pseudo-gradient and average, each as long as its parameters. The
// pseudo-gradient is taken where the parameters are, encoded and averaged there
// (device_butterfly.h), and the outer step is one pass over the device's memory. The host holds a
// copy of anchor and vectors, which digests, joiners and checkpoints read; step() brings it up to
// date.
//
// `local` is where the local parameters lie on the device; nobody else uses them meanwhile. Vectors
// of a fragment are packed, as in outer_opt/core/step/fragments.h. One thread at a time, except
// the sessions that it made. Errors are those of the device; after one, the caller gives the device
// up.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "outer_opt/core/reduce/reduce_session.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/outer_optimizer.h"
#include "outer_opt/cuda/accelerator.h"
#include "outer_opt/cuda/staging.h"

namespace shoal::outer_opt {

class DeviceVectors : public std::enable_shared_from_this<DeviceVectors> {
 public:
  // Whether a job's outer steps can be taken so: there is a kernel for its optimizer (null: its
  // steps are no optimizer's), anchors are the same everywhere, the codec is dense and the average
  // the mean. Others compute on the host.
  static bool suits(const OuterOptimizer* optimizer, const SyncSpec& sync);

  // For an optimizer with so many vectors. kResourceExhausted when the device has no room. The
  // accelerator outlives all.
  static Result<std::shared_ptr<DeviceVectors>> create(Accelerator& device, std::int64_t values,
                                                       std::size_t state_vectors);

  Status load(std::span<const float> anchor, const NamedVectors& state);

  // The pseudo-gradient of a fragment becomes anchor minus local. What is not finite in `local`
  // counts beyond the fragment, too, because it spreads.
  Result<VectorStatistics> take_pseudo_gradient(const float* local, const Fragment& fragment);

  // The session of `self` in a plan that suits (DeviceButterfly::suits()), with this
  // pseudo-gradient and average, which it keeps alive. kValidation as make_session().
  Result<std::unique_ptr<ReduceSession>> make_session(const ReducePlan& plan, ReplicaId self,
                                                      bool contributes);
  // For plans that do not suit, which the host computes.
  Status read_pseudo_gradient(std::span<float> out);
  Status write_average(std::span<const float> in);
  // The first values of it, for joiners.
  Status read_average(std::span<float> out);
  // Values of pseudo-gradient and average from `first` on.
  Status read(std::int64_t first, std::span<float> pseudo_gradient, std::span<float> average);

  // The outer step of a fragment with the average, by an optimizer that has a kernel; then `state`
  // and `anchor` of the host, whole vectors, are what they are here.
  Status step(const OuterOptimizer& optimizer, const StepTerms& terms, const Fragment& fragment,
              NamedVectors& state, std::span<float> anchor);
  // local <- blend * local + (1 - blend) * anchor on the fragment.
  Status adopt(const Fragment& fragment, double blend, float* local);

 private:
  explicit DeviceVectors(Accelerator& device) : lanes_(device) {}
  Result<VectorStatistics> measure(const float* values, std::size_t count);
  void queue_step(const OuterOptimizer& optimizer, const StepTerms& terms, const ValueRange& range,
                  const float* average);

  DeviceMemory<float> anchor_, pseudo_gradient_, average_;
  std::vector<DeviceMemory<float>> state_;  // in the optimizer's order
  DeviceMemory<cuda::PartialStatistics> partial_, pinned_partial_;
  std::unique_ptr<Ferry> ferry_;
  LaneShelf lanes_;
  std::unique_ptr<DeviceQueue> queue_;  // last: it ends before the memory that it uses
};

}  // namespace shoal::outer_opt
