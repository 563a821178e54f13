// The parameters in a checkpoint of a Python program (replica/checkpoint/part_file.h): whatever the
// program trains, under its own names, in one file per stage. What they mean is the program's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace shoal::trainer {

struct ProgramTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t first = 0, count = 0;  // of the values
};

struct ProgramParameters {
  std::vector<ProgramTensor> tensors;  // stage by stage, as they were written
  std::vector<float> values;
};

// Whether a program wrote the checkpoint; false when its part file cannot be read.
bool is_of_program(const std::filesystem::path& checkpoint);

// kNotFound: a stage's file is missing. kDataLoss: a file is damaged, its values are not those
// whose digest was written, or two stages have a tensor of one name.
Result<ProgramParameters> read_program(const std::filesystem::path& checkpoint);

}  // namespace shoal::trainer
