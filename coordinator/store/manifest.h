// What lies beside the files of a stored checkpoint, in manifest.json: its record. With it a folder
// says by itself of what job and round it is, what was trained until then, and what each of its
// files has to be: a database that is older than the folder continues from it. It carries a digest
// of itself, so that no flipped bit makes a round of another.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "coordinator/core/records/checkpoint_record.h"

namespace shoal::coordinator {

inline constexpr const char* kManifestFile = "manifest.json";

std::string to_manifest(const CheckpointRecord& checkpoint);

// kDataLoss: it is none, is damaged, or not that of a stored checkpoint; kIncompatible: of a newer
// version.
Result<CheckpointRecord> read_manifest(std::string_view text);

}  // namespace shoal::coordinator
