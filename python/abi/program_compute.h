// Compute by a program behind the C interface: every question becomes an order (orders.h). The
// inner optimizer and its state are the program's own: of a checkpoint the program writes and reads
// objects (its buffers, that state, what it keeps), and the library the vectors that replicas
// share. A stage of a pipeline is in program_stage.h.
//
// A process serves one replica. When that is released, the program's orders end.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "python/abi/orders.h"
#include "replica/runtime/compute.h"

namespace shoal::python {

using replica::MaybeFailure;

// Tensors that share a name up to its first number ("blocks.3.") are a block, the others one each:
// what sync.fragments deals out.
std::vector<std::int64_t> block_sizes(const std::vector<TensorShape>& tensors);

class ProgramHost final : public replica::ComputeHost {
 public:
  explicit ProgramHost(Orders& orders) : orders_(orders) {}  // outlives this

  MaybeFailure make(const replica::ComputeOrder& order,
                    std::unique_ptr<replica::Compute>& out) override;
  MaybeFailure guarded(const std::function<void()>& work) override;
  Result<replica::WrittenPart> write_checkpoint(const std::filesystem::path& folder,
                                                const replica::CheckpointContent& content) override;
  Result<replica::Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                              StageIndex stage) override;

 private:
  Orders& orders_;
  bool used_ = false;
  std::vector<TensorShape> tensors_;  // of the model that was made
  std::int64_t value_count_ = 0;
  std::size_t stages_ = 1;
};

}  // namespace shoal::python
