// Compute in libtorch: a stage of a model, its data, and the replica group that computes a whole
// model's gradients where several devices train one replica. And the process that makes them.
#pragma once

#include <functional>
#include <memory>

#include "data/data_roots.h"
#include "data/stored_tokens.h"
#include "replica/runtime/compute.h"
#include "trainer/compute/special_tokens.h"
#include "trainer/model/group_leader.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

struct JobTokenizer;

// Makes the replica group of a whole model; none: this process is never in one.
using MakeReplicaGroup = std::function<std::unique_ptr<GroupLeader>(StageModel&)>;

class TorchHost final : public replica::ComputeHost {
 public:
  // Data is read beneath `roots`, datasets with `read`. The accelerator, if any, outlives this.
  TorchHost(DeviceChoice device, data::DataRoots roots,
            outer_opt::Accelerator* accelerator = nullptr, MakeReplicaGroup make_replica_group = {},
            data::ReadStored read = {})
      : device_(device),
        roots_(std::move(roots)),
        accelerator_(accelerator),
        make_replica_group_(std::move(make_replica_group)),
        read_(std::move(read)) {}

  MaybeFailure make(const replica::ComputeOrder& order,
                    std::unique_ptr<replica::Compute>& out) override;
  MaybeFailure guarded(const std::function<void()>& work) override;
  Result<BlockTimes> measure_block(const MeasureBlock& asked) override;
  outer_opt::Accelerator* accelerator() override { return accelerator_; }
  Result<replica::WrittenPart> write_checkpoint(const std::filesystem::path& folder,
                                                const replica::CheckpointContent& content) override;
  Result<replica::Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                              StageIndex stage) override;
  Result<replica::Checkpoint> read_units(const std::filesystem::path& folder,
                                         UnitRange units) override;
  bool writes_beside_training() const override { return true; }

 private:
  DeviceChoice device_;
  data::DataRoots roots_;
  outer_opt::Accelerator* accelerator_;
  MakeReplicaGroup make_replica_group_;
  std::shared_ptr<const JobTokenizer> tokenizer_;  // of the last stage 0 that was made; may be null
  // Those of the weights that this stage 0 began from, for the configurations of its checkpoints.
  std::shared_ptr<SpecialTokens> special_ = std::make_shared<SpecialTokens>();
  data::ReadStored read_;
};

}  // namespace shoal::trainer
