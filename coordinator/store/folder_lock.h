// One coordinator per data folder: an flock on <folder>/lock, which the kernel drops with the
// process, however it dies. The file holds the owner's process id for the error message of a second
// opener.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace shoal::coordinator {

class FolderLock {
 public:
  // Creates the folder (rights 0700) when it is not there. kConflict names the owner's process id.
  static Result<std::unique_ptr<FolderLock>> take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace shoal::coordinator
