// Files of checkpoints on this host: hashed, written durably, received and verified. Paths inside a
// folder come from a FileEntry that was read (proto/convert.h), so they stay inside it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "swarm/core/messages.h"

namespace shoal::agent {

// SHA-256 of what was added, as 64 hex characters.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::string_view bytes);
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Written beside `path`, synced, renamed over it, and the folder synced.
Status write_file_durably(const std::string& path, std::string_view text);

// Every regular file below `folder` with its size and hash, sorted by path. kCancelled when told
// so.
Result<std::vector<FileEntry>> hash_folder(const std::string& folder,
                                           const std::atomic<bool>& cancelled);

// Reads the files back to back in pieces; stops with the piece that `take` refuses.
Status read_files(const std::string& folder, const std::vector<FileEntry>& files,
                  const std::function<bool(std::string_view)>& take);

// Receives files back to back into `folder`.part; finish() verifies sizes and hashes, syncs and
// renames. Without finish() nothing is left behind.
class FolderReceiver {
 public:
  FolderReceiver(std::string folder, std::vector<FileEntry> files);
  ~FolderReceiver();
  FolderReceiver(const FolderReceiver&) = delete;
  FolderReceiver& operator=(const FolderReceiver&) = delete;

  Status write(std::string_view bytes);
  Status finish();

 private:
  Status open_next();   // also passes over empty files
  Status close_file();  // verifies

  std::string folder_, part_;
  std::vector<FileEntry> files_;
  std::size_t next_ = 0;  // file to open
  int fd_ = -1;
  std::int64_t left_ = 0;  // bytes of the open file
  std::unique_ptr<Sha256> hash_;
  bool started_ = false, done_ = false;
};

}  // namespace shoal::agent
