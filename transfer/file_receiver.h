// The receiving end of files that travel back to back (files.h), so that nothing comes twice: what
// was received stays in the folder, whatever ends the transfer, and the next receiver of the same
// files continues behind it. Beside the folder lies the list of its files (<folder>.list); a
// receiver of another list starts over. Sizes and SHA-256 are verified file by file, before
// anything has its final name.
//
// Which bytes are safe: those that sync() has written to the disk. What was written after it is
// there after the end of the process, and perhaps not after that of the machine; a receiver reads
// again what it finds, so a torn end is noticed by its hash and that file starts over.
//
// Used by one thread. Paths must have been checked: they stay below the folder.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "messages/messages.h"

namespace shoal {

class FileReceiver {
 public:
  // Continues with what `folder` holds of exactly these files; what it holds of others is removed.
  // Reads that to hash it, which takes as long as the disk needs.
  static Result<std::unique_ptr<FileReceiver>> open(std::string folder,
                                                    std::vector<FileEntry> files);
  // The same with the list that lies beside the folder. kNotFound: there is none.
  static Result<std::unique_ptr<FileReceiver>> reopen(std::string folder);
  // Undoes finish(): moves `target` back to `folder`. Does nothing when there is no `target`.
  static Status take_back(const std::string& target, const std::string& folder);
  // Removes the folder and its list.
  static Status discard(const std::string& folder);

  ~FileReceiver();
  FileReceiver(const FileReceiver&) = delete;
  FileReceiver& operator=(const FileReceiver&) = delete;

  const std::vector<FileEntry>& files() const { return files_; }
  Bytes received() const { return received_; }
  bool complete() const { return next_ == files_.size(); }

  // Takes the next bytes. kInvalidArgument: no more are expected. kDataLoss: a file does not match
  // its hash, and starts over. kUnavailable: the same for a resumed file, whose older part most
  // likely did not reach the disk.
  Status write(std::span<const std::byte> bytes);
  Status sync();
  // Makes complete files durable, and renames the folder to `target` in place of what is there,
  // list and all. kInvalidArgument: something is missing.
  Status finish(const std::string& target);

 private:
  FileReceiver(std::string folder, std::vector<FileEntry> files)
      : folder_(std::move(folder)), files_(std::move(files)) {}
  Status make_room();
  Status take_stock();
  Result<bool> take_stock_of(const FileEntry& file);
  Status open_file();
  Status close_file();
  Status advance();
  std::string path() const { return folder_ + "/" + files_[next_].path; }

  const std::string folder_;
  const std::vector<FileEntry> files_;
  std::size_t next_ = 0;  // the file that is being received
  int fd_ = -1;
  std::int64_t here_ = 0;  // bytes of that file
  bool resumed_ = false;   // some of them were found
  Sha256 hash_;
  Bytes received_;
};

// One line a file: size, hash, path.
std::string list_text(const std::vector<FileEntry>& files);

}  // namespace shoal
