// The weights and buffers of a whole checkpoint, of any trainer and any cut, as named tensors in
// the order in which they were written: what an export copies. Float32 weights are mapped where
// they lie in one run of a file, and read else.
#pragma once

#include <deque>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "replica/checkpoint/part_reader.h"
#include "replica/checkpoint/safetensors.h"

namespace shoal::replica {

class StoredWeights {
 public:
  // kNotFound: a stage's file is missing. kDataLoss: a file is damaged or of another round, its
  // values are not those whose digest was written, or two stages have a weight of one name.
  static Result<StoredWeights> open(const std::filesystem::path& folder);

  const JobSpec& spec() const { return spec_; }
  bool is_of_program() const { return of_program_; }
  // Weights, then the buffers of programs, which have types of their own. Their memory lives as
  // long as this does.
  const std::vector<TensorToWrite>& tensors() const { return tensors_; }

 private:
  Status add_weights(const PartReader& part);
  Status add_buffers(const PartReader& part);

  JobSpec spec_;
  bool of_program_ = false;
  std::vector<TensorToWrite> tensors_, buffers_;
  std::set<std::string> names_;
  std::deque<MappedValues> mapped_;
  std::deque<std::vector<float>> read_;
  std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace shoal::replica
