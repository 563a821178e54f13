// A place where checkpoints lie, as a start sees it: the folders of the data folder
// (checkpoint_files.h), or an object store (checkpoint_bucket.h).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "coordinator/core/records/checkpoint_record.h"

namespace shoal::coordinator {

class CheckpointShelf {
 public:
  virtual ~CheckpointShelf() = default;

  // Whatever is there, and whether it is complete.
  virtual Result<std::map<CheckpointId, bool>> list() const = 0;
  virtual Result<CheckpointRecord> manifest(CheckpointId id) const = 0;
  // Whether the files are those of the list.
  virtual Status verify(CheckpointId id, const std::vector<FileEntry>& files) const = 0;
  virtual std::string place(CheckpointId id) const = 0;  // as people are told
  // Whether an error says no more than that the shelf does not answer now.
  virtual bool is_silence(const Error& error) const = 0;
  // What is left of checkpoints that are none of `wanted` goes.
  virtual Status prune(const std::set<CheckpointId>& wanted) = 0;
};

inline constexpr std::size_t kCheckpointFilesMax = 10'000;

// Relative, below its folder, no "." or ".." or empty component, no control characters.
bool is_safe_path(const std::string& path);

// kInvalidArgument: too many files, or none; a path that is not safe or there twice; a size below
// 0.
Status check_file_list(const std::vector<FileEntry>& files);

// What is wrong with an upload; the agent writes the checkpoint again.
Error bad_upload(Code code, const std::string& path, std::string message);

}  // namespace shoal::coordinator
