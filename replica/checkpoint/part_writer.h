// The writer of checkpoints, of every trainer: a part has the same files with the same names,
// roles, metadata and digests whether libtorch or a Python program trains the stage
// (docs/checkpoints.md). A trainer describes what only it knows: the tensors of the anchor, texts
// for other libraries, and the objects that it keeps.
//
//   write_object()        one object, from any process of the replica; before write_part()
//   write_program_file()  the copy of a file that a program wrote; likewise
//   write_part()          weights, outer vectors and moments, then the part file, which lists all
//
// Everything is synced. Files of the same names are replaced. After a failure there is no part
// file, so the folder is no checkpoint.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "messages/tensor_shape.h"
#include "replica/checkpoint/content.h"
#include "replica/checkpoint/part_file.h"
#include "replica/checkpoint/safetensors.h"

namespace shoal::replica {

struct DescriptionFile {
  std::string name, text;  // "config.json"
};

// What a trainer adds to the state of a stage.
struct TrainerPart {
  std::vector<TensorShape> weights;  // of the anchor, one after the other; types are ignored
  std::vector<DescriptionFile> descriptions = {};
  std::vector<FileEntry> objects = {};  // that were written before, with their roles
  std::string about_text = {};          // how a token becomes text, for people; may be empty
};

// Creates the folder where it is missing.
Status make_checkpoint_folder(const std::filesystem::path& folder);

Result<WrittenPart> write_part(const std::filesystem::path& folder,
                               const CheckpointContent& content, const TrainerPart& trainer);

// The key of the JSON document in the metadata of a file of tensors.
inline constexpr const char* kDocumentKey = "state";

// Tensors of any type with a JSON document, or either alone: buffers, the state of an inner
// optimizer, what a program keeps.
struct ObjectToWrite {
  std::filesystem::path folder;
  StageIndex stage = 0;
  std::size_t stages = 1;
  std::string role;                    // kRoleBuffers, "inner/NAME", "object/NAME"
  std::string document = {};           // JSON; may be empty
  std::vector<TensorToWrite> tensors;  // none: the file is NAME.json, the document itself
};
// kValidation: the role is of no object, or its name cannot be that of a file.
Result<FileEntry> write_object(const ObjectToWrite& object);

// Files of programs are copied at each checkpoint, stored and sent to replicas.
inline constexpr Bytes kProgramFileBytesMax = Bytes(std::int64_t{256} << 20);
// Copies `source`, a regular file, under the role "file/NAME". kResourceExhausted: it is larger.
Result<FileEntry> write_program_file(const std::filesystem::path& folder, StageIndex stage,
                                     std::size_t stages, const std::string& name,
                                     const std::filesystem::path& source,
                                     Bytes most = kProgramFileBytesMax);

}  // namespace shoal::replica
