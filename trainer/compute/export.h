// A checkpoint made into a folder that people pass on: the parameters alone, in bf16 or fp32, in
// files of a limited size, with config.json and the tokenizer of the job or of another folder.
// `AutoModelForCausalLM.from_pretrained` of the Hugging Face libraries loads it. Of a Python
// program's checkpoint the parameters have the program's names, and there is no config.json. No
// torch here.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "base/units.h"
#include "job/job_spec.h"

namespace shoal::trainer {

struct ExportOptions {
  std::filesystem::path checkpoint;  // a folder of write_checkpoint(), or of a program
  std::filesystem::path out;         // is created; must be empty
  Precision precision = Precision::kBf16;
  Bytes shard_max = Bytes(5'000'000'000);  // of a file's tensors; a larger tensor is alone in one
  // A folder that has one, whose tokens that end a text the configurations name; empty: the
  // checkpoint's, if it has one.
  std::filesystem::path tokenizer;
};

struct Exported {
  std::size_t files = 0;  // of tensors
  Bytes bytes;            // of their values
};

// Holds the model in memory, in fp32. kConflict when `out` is not empty; else as
// StoredModel::open(), or what the disk says. After a failure `out` is to be deleted.
Result<Exported> export_checkpoint(const ExportOptions& options);

}  // namespace shoal::trainer
