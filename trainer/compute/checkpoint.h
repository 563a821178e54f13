// The files of a checkpoint of this library's models: what the Hugging Face libraries load, and
// what a resume needs besides.
//
//   model.safetensors        the anchor, under the names of parameter_layout()
//   config.json              LlamaConfig or GPT2Config
//   generation_config.json   defaults for sampling
//   tokenizer.json           the job's, where it has one (data.tokenizer_file, or of its datasets)
//   outer.safetensors        outer momentum, flat; another vector of the outer optimizer is in
//                            outer_NAME.safetensors (outer_file()); none with ddp
//   optimizer.safetensors    the moments of the inner optimizer, flat, in the model's order
//                            (optimizer_layout()); with train.optimizer = muon the matrices have no
//                            second ones
//   part-00.json             the part file (replica/checkpoint/part_file.h)
//
// Each stage of a cut model writes its own .safetensors files, numbered "-00001-of-00004", and its
// own part file; stage 0 the others and model.safetensors.index.json: a sharded checkpoint. Each
// file of tensors has the digests of its vectors in its metadata.
//
// Checkpoints of versions before 0.2 have shoal.json in place of part files, and one
// shoal_state.safetensors in place of outer and optimizer. They are read, never written.
//
// No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "job/job_spec.h"
#include "replica/checkpoint/content.h"
#include "replica/checkpoint/safetensors.h"
#include "trainer/compute/special_tokens.h"

namespace shoal::trainer {

using replica::Checkpoint;
using replica::CheckpointContent;
using replica::WrittenPart;

// Writes what the stage has to write, with stage 0 the ids of `special` in the configurations and
// `tokenizer`, unless it is empty. Creates the folder where it is missing and replaces files of the
// same names.
Result<WrittenPart> write_checkpoint(const std::filesystem::path& folder,
                                     const CheckpointContent& content,
                                     std::string_view tokenizer = {},
                                     const SpecialTokens& special = {});

// One stage, or without `stage` the whole model, of any cut. kNotFound without the files,
// kDataLoss when a digest does not match or files are of different rounds, kIncompatible for
// another model.
Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                   std::optional<StageIndex> stage);

// The units of a stage of another cut, from the files of all parts that have some of them; the part
// files of all parts must be there. `cut` of the result is that of the checkpoint; `adam_step` is
// the largest of those parts, whose writers may have begun to train at different steps. Reads one
// part after another, so it needs room for the stage and one part. Fails as read_checkpoint() does;
// kIncompatible also when the model has no such units.
Result<Checkpoint> read_units(const std::filesystem::path& folder, UnitRange units);

// The whole model of a checkpoint, for those who only ask it: its parameters as they lie in the
// file, which is mapped, or read where a cut or another writer has spread them.
class StoredModel {
 public:
  // As read_checkpoint().
  static Result<StoredModel> open(const std::filesystem::path& folder);

  const JobSpec& spec() const { return head_.spec; }
  const RoundKey& key() const { return head_.key; }
  Steps step() const { return head_.step; }
  bool is_mapped() const { return mapped_.has_value(); }
  // In the order of parameter_layout(), as long as this lives.
  std::span<const float> values() const { return mapped_ ? mapped_->values() : head_.anchor; }

 private:
  explicit StoredModel(Checkpoint head) : head_(std::move(head)) {}

  Checkpoint head_;  // its anchor is empty where it is mapped
  std::optional<replica::MappedValues> mapped_;
};

}  // namespace shoal::trainer
