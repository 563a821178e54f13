// Reads the vectors of one part of a checkpoint, whichever version wrote it, and compares their
// digests with those that the part file or the metadata of the file names.
//
// kNotFound: a file or tensor is missing. kDataLoss: a digest does not match, or the file is of
// another round. kIncompatible: the tensors are those of another model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"
#include "messages/tensor_shape.h"
#include "replica/checkpoint/part_file.h"
#include "replica/checkpoint/safetensors.h"

namespace shoal::replica {

class PartReader {
 public:
  // All outlive this. `key`: the round of the checkpoint, which every part has.
  PartReader(const std::filesystem::path& folder, StageIndex stage, const PartHead& head,
             const RoundKey& key)
      : folder_(folder), stage_(stage), head_(head), key_(key) {}

  // The tensors of the anchor as the file has them, in their order.
  Result<std::vector<TensorShape>> weights() const;

  // Each appends to `out`. Of a program's checkpoint the tensors may be stored under names with the
  // wrappers of PyTorch ("_orig_mod."), as versions before 0.2 wrote them.
  Status read_weights(const std::vector<TensorShape>& tensors, std::vector<float>& out) const;
  // The vectors of the outer optimizer that the job of the checkpoint has, of `count` values each.
  Status read_outer(std::int64_t count, NamedVectors& out) const;
  // Also sets adam_step.
  Status read_moments(std::int64_t first, std::int64_t second, Checkpoint& out) const;

  // The anchor where it lies in the file. None: it has to be read.
  Status map_weights(const std::vector<TensorShape>& tensors,
                     std::optional<MappedValues>& out) const;
  // The buffers of a program, which it wrote beside the anchor; none: there is no such file.
  Result<std::optional<SafetensorsFile>> buffers() const;

 private:
  Result<SafetensorsFile> open(const std::string& stem) const;
  Status check_digest(const SafetensorsFile& file, const std::string& name,
                      std::span<const float> values) const;
  Status read_flat(const SafetensorsFile& file, const std::string& name, std::int64_t count,
                   std::vector<float>& out) const;

  const std::filesystem::path& folder_;
  const StageIndex stage_;
  const PartHead& head_;
  const RoundKey& key_;
};

}  // namespace shoal::replica
