// Files of a checkpoint that a trainer wrote on this host. The folder is the trainer's, which may
// be a program of a job: only regular files are opened, below the folder and never through links
// (transfer/regular_file.h). What a file must be is what its writer reported; a file that is
// something else fails the part, by its name.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "messages/messages.h"
#include "transfer/regular_file.h"

namespace shoal::agent {

// Compares the names, types and sizes below `folder` with the files that the writer reported; their
// bytes are compared while they are uploaded (OutgoingFiles). A writer of protocol 4 reports none:
// then every file is listed and hashed, sorted by path. kCancelled when told so. kDataLoss: a file
// is missing, short, of another type, or was not reported, or there are none.
Result<std::vector<FileEntry>> check_written(const std::string& folder,
                                             const std::vector<FileEntry>& reported,
                                             const std::atomic<bool>& cancelled);

// The files of one upload, read in their order. Each is opened once, hashed while it is read, and
// compared at its end. Used by one thread.
class OutgoingFiles {
 public:
  using Take = std::function<bool(std::span<const std::byte>)>;  // false: stop

  OutgoingFiles(std::string folder, const std::vector<FileEntry>& files)
      : folder_(std::move(folder)), files_(files) {}

  // Bytes `from` to `to` of file number `index`. What precedes them is read, too, where it was not
  // read before. kDataLoss: the file is not what was reported; with `to` its end, all of it is
  // compared. kCancelled: `take` said so.
  Status read(std::size_t index, std::int64_t from, std::int64_t to, const Take& take);
  // All files back to back, from byte `from` of the whole on.
  Status read_all(Bytes from, const Take& take);
  // The descriptor of the file that was read last.
  int descriptor() const { return file_->descriptor(); }

 private:
  Status open(std::size_t index);
  Status hash_to(std::int64_t end, const Take& take);

  const std::string folder_;
  const std::vector<FileEntry>& files_;
  std::size_t index_ = 0;  // of the open file
  std::optional<RegularFile> file_;
  Sha256 hash_;
  std::int64_t hashed_ = 0;  // bytes of that file
};

}  // namespace shoal::agent
