// The part file of a checkpoint, part-NN.json for stage NN (docs/checkpoints.md). It lists the
// files of the part. The writer renames it into place after all others, so a folder with a part
// file has every file of the part.
//
// Versions before 0.2 wrote shoal.json; their Python programs wrote one per stage
// (shoal-00002-of-00004.json). read_part() reads these formats, and nothing writes them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "replica/checkpoint/content.h"

namespace shoal::replica {

// Roles of the files of a checkpoint (FileEntry::role).
inline constexpr const char* kRoleWeights = "weights";
inline constexpr const char* kRoleBuffers = "buffers";
inline constexpr const char* kRoleInner = "inner/optimizer";
inline constexpr const char* kRolePart = "part";
// config.json, tokenizer.json, the index of the shards.
inline constexpr const char* kRoleDescription = "description";
// Followed by a name: a vector of the outer optimizer, the state of a replica or a rank, what a
// program keeps, a file that a program wrote.
inline constexpr std::string_view kOuterRole = "outer/", kInnerRole = "inner/",
                                  kObjectRole = "object/", kFileRole = "file/";

// What may follow them, since it becomes a part of a file's name: 1 to 96 letters, digits and . _
// -, of which the first is no dot.
bool is_object_name(std::string_view name);

// "model.safetensors", or "model-00002-of-00004.safetensors" for stage 1 of 4.
std::string stage_file(std::string_view stem, StageIndex stage, std::size_t stages,
                       std::string_view ending);
std::string tensor_file(std::string_view stem, StageIndex stage, std::size_t stages);
std::string part_file(StageIndex stage);  // "part-01.json" for stage 1

// Where a checkpoint keeps a vector of the outer optimizer: each in a file of its own, whose tensor
// has the name that the part file has for the vector.
struct OuterFile {
  std::string stem;    // "outer" for "momentum", which earlier versions wrote so; "outer_adam_m"
  std::string tensor;  // "outer_momentum"
  std::string role;    // "outer/momentum"
};
OuterFile outer_file(std::string_view vector);

using PartDigests = std::map<std::string, Digest>;  // of "anchor" and each OuterFile::tensor
PartDigests digests_of(const CheckpointContent& content);

// Writes the part file after all other files of the part, and syncs the folder. `about_text`: how a
// token becomes text, for people; may be empty.
Result<WrittenPart> write_part_file(const std::filesystem::path& folder,
                                    const CheckpointContent& content, const PartDigests& digests,
                                    std::vector<FileEntry> files, std::string_view about_text = {});

enum class PartFormat {
  kWhole,     // 0.1.0: shoal.json has all digests
  kStages,    // one shoal.json for all stages; the metadata of each tensor file has its digests
  kProgram,   // "python-1": a Python program wrote shoal.json
  kPartFile,  // since 0.2
};

struct PartHead {
  PartFormat format = PartFormat::kPartFile;
  Checkpoint checkpoint;  // without values
  PartDigests digests;    // kWhole also has those of the moments, kStages has none
  std::map<std::string, std::int64_t> value_counts;  // not of kWhole and kStages
  std::vector<FileEntry> files;                      // of kPartFile
  bool is_of_program() const {
    return format == PartFormat::kProgram || checkpoint.spec.trainer.kind == TrainerKind::kPython;
  }
};

// The part file of `stage`, or what earlier versions wrote. kNotFound: there is none. kDataLoss: it
// is damaged. kIncompatible: a newer version wrote it, or the cut has no such stage.
Result<PartHead> read_part(const std::filesystem::path& folder, StageIndex stage);

// The files of the stage with their roles: those that the part file lists, which lie in the folder
// itself. Of kProgram the files that are there, by their names, without sizes.
std::vector<FileEntry> files_of(const std::filesystem::path& folder, StageIndex stage,
                                const PartHead& head);

// The round as the metadata of tensor files names it: "job_3/1/40".
std::string text_of(const RoundKey& key);

}  // namespace shoal::replica
