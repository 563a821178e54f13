// A trainer that waits instead of computing: every inner step takes the time it is told, and its
// parameters shrink towards zero by the learning rate, so that rounds, outer steps, transfers and
// checkpoints have something to carry that can be told from what it was. A step costs no processor
// time, whatever the size of the model, so dozens fit on a small machine; the rest of the process
// is the product's (replica/runtime).
#pragma once

#include "replica/runtime/compute.h"

namespace shoal::bench {

struct TimedOptions {
  Duration step = milliseconds(100);  // of a whole model; a stage takes that of its blocks
};

class TimedHost final : public replica::ComputeHost {
 public:
  explicit TimedHost(TimedOptions options) : options_(options) {}

  replica::MaybeFailure make(const replica::ComputeOrder& order,
                             std::unique_ptr<replica::Compute>& out) override;
  replica::MaybeFailure guarded(const std::function<void()>& work) override;
  // A block takes its share of a step; embedding and head take nothing.
  Result<BlockTimes> measure_block(const MeasureBlock& asked) override;
  // The weights are one tensor.
  Result<replica::WrittenPart> write_checkpoint(const std::filesystem::path& folder,
                                                const replica::CheckpointContent& content) override;
  Result<replica::Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                              StageIndex stage) override;
  bool writes_beside_training() const override { return true; }

 private:
  TimedOptions options_;
  std::size_t stages_ = 1;
};

}  // namespace shoal::bench
