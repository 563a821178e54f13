// The files of a checkpoint: what the Hugging Face libraries load, and what a resume needs besides.
//
//   model.safetensors        the anchor, under the names of parameter_layout()
//   config.json              LlamaConfig or GPT2Config
//   generation_config.json   defaults for sampling
//   shoal_state.safetensors  outer momentum and both Adam moments, flat, in the model's order
//   shoal.json               spec, round, step, digests, Adam step, and how text becomes tokens
//
// Every file is synced; whole folders become visible atomically through their reader's manifest,
// which is the agent's business. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/job_spec.h"
#include "base/result.h"
#include "outer_opt/core/round.h"

namespace shoal::trainer {

struct CheckpointContent {
  const JobSpec& spec;  // derived fields filled
  RoundKey key;
  Steps step;  // of the job's schedule
  std::span<const float> anchor, momentum, adam_m, adam_v;
  std::int64_t adam_step = 0;
};

// Creates the folder where it is missing and replaces files of the same names.
Status write_checkpoint(const std::filesystem::path& folder, const CheckpointContent& content);

struct Checkpoint {
  JobSpec spec;
  RoundKey key;
  Steps step;
  std::vector<float> anchor, momentum, adam_m, adam_v;
  std::int64_t adam_step = 0;
};

// kNotFound without the files, kDataLoss when a digest does not match, kIncompatible for another
// model. Without `with_state` only spec, key and anchor are read.
Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder, bool with_state);

}  // namespace shoal::trainer
