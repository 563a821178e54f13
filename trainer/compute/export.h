// Exports a checkpoint of any trainer as a folder that people pass on: weights in bf16 or fp32 and
// the buffers of Python programs in their own types, in files of a limited size. Of this library's
// models it also has config.json and the tokenizer of the job or of another folder:
// `AutoModelForCausalLM.from_pretrained` of the Hugging Face libraries loads it. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "base/units.h"
#include "job/job_spec.h"

namespace shoal::trainer {

struct ExportOptions {
  std::filesystem::path checkpoint;  // a folder with all its parts
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

// kConflict when `out` is not empty; else as StoredWeights::open(), or what the disk says. After a
// failure `out` is to be deleted.
Result<Exported> export_checkpoint(const ExportOptions& options);

}  // namespace shoal::trainer
