// The files of a checkpoint that the Hugging Face libraries read besides the tensors, as text, and
// the names of all of them. A model that is cut into stages is a sharded checkpoint with one shard
// per stage. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "job/job_spec.h"
#include "trainer/compute/special_tokens.h"

namespace shoal::trainer {

// "model.safetensors", or "model-00002-of-00004.safetensors" for stage 1 of 4.
std::string model_file(StageIndex stage, std::size_t stages);

// Derived fields of `model` are filled. `precision`: of the values in the files.
std::string model_config(const ModelSpec& model, Precision precision = Precision::kFp32,
                         const SpecialTokens& tokens = {});
std::string generation_config(const SpecialTokens& tokens = {});

// model.safetensors.index.json: which file holds which tensor, `total` bytes in all.
struct TensorPlace {
  std::string tensor, file;
};
std::string shard_index(const std::vector<TensorPlace>& places, Bytes total);
std::string shard_index(const ModelSpec& model, const std::vector<UnitRange>& cut);  // in fp32

}  // namespace shoal::trainer
