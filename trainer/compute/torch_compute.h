// Compute in libtorch: a stage of a model, its data, and the cell that computes a whole model's
// gradients where several devices train one replica. And the process that makes them.
#pragma once

#include <functional>
#include <memory>

#include "replica/runtime/compute.h"
#include "trainer/model/cell_leader.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

// Makes the cell of a whole model; none: this process is never in one.
using MakeCell = std::function<std::unique_ptr<CellLeader>(StageModel&)>;

class TorchHost final : public replica::ComputeHost {
 public:
  // The accelerator, if any, outlives this.
  explicit TorchHost(DeviceChoice device, outer_opt::Accelerator* accelerator = nullptr,
                     MakeCell make_cell = {})
      : device_(device), accelerator_(accelerator), make_cell_(std::move(make_cell)) {}

  MaybeFailure make(const replica::ComputeOrder& order,
                    std::unique_ptr<replica::Compute>& out) override;
  MaybeFailure guarded(const std::function<void()>& work) override;
  outer_opt::Accelerator* accelerator() override { return accelerator_; }
  Status write_checkpoint(const std::filesystem::path& folder,
                          const replica::CheckpointContent& content) override;
  Result<replica::Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                              StageIndex stage) override;

 private:
  DeviceChoice device_;
  outer_opt::Accelerator* accelerator_;
  MakeCell make_cell_;
};

}  // namespace shoal::trainer
