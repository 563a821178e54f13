// shoal.json of a program's checkpoint: of which job, round and step it is, how many values its
// tensors have, and their digests. The tensors are the program's files. Each stage of a pipeline
// has one: stage 0 shoal.json, stage 1 of 4 shoal-00002-of-00004.json.
#pragma once

#include <filesystem>

#include "base/digest.h"
#include "base/result.h"
#include "replica/runtime/compute.h"

namespace shoal::python {

struct CheckpointHead {
  replica::Checkpoint checkpoint;  // without values
  std::int64_t value_count = 0, momentum_count = 0;
  Digest anchor, momentum;
};

Status write_checkpoint_head(const std::filesystem::path& folder,
                             const replica::CheckpointContent& content);
// kNotFound without it, as with another number of stages; kDataLoss when it is damaged.
Result<CheckpointHead> read_checkpoint_head(const std::filesystem::path& folder, StageIndex stage,
                                            std::size_t stages);
// kDataLoss: the values that were read since are not those that were written.
Status check_digests(const CheckpointHead& head);

}  // namespace shoal::python
