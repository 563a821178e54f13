// The objects of a program as one vector, for a joiner: what a checkpoint would have of them, from
// the memory of a live replica. The vector has the bytes of the files, with a list of them.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "messages/message_parts.h"

namespace shoal::replica {

inline constexpr Bytes kObjectBundleBytesMax = Bytes(std::int64_t{16} << 30);

// `files`: of the folder, with their roles. kResourceExhausted: more than kObjectBundleBytesMax.
Result<std::vector<float>> bundle_objects(const std::filesystem::path& folder,
                                          const std::vector<FileEntry>& files);

// Writes the files and their list to the folder. Nothing in a bundle is trusted. kDataLoss: it is
// no bundle, or a name in it is none of an object's file.
Status unbundle_objects(std::span<const float> bundle, const std::filesystem::path& folder);

// The files of one stage: those of a bundle, or else of a checkpoint (files_of()).
Result<std::vector<FileEntry>> list_objects(const std::filesystem::path& folder, StageIndex stage);

// Is removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }  // empty: it could not be made

 private:
  std::filesystem::path path_;
};

}  // namespace shoal::replica
