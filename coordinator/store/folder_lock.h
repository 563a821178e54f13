// One coordinator per data folder: <folder>/lock is locked and holds the owner's process id, which
// the error of a second opener names.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "threads/file_lock.h"

namespace shoal::coordinator {

class FolderLock {
 public:
  // Creates the folder (rights 0700) when it is not there. kConflict names the owner's process id.
  static Result<std::unique_ptr<FolderLock>> take(const std::string& folder);

 private:
  explicit FolderLock(const std::string& path);
  FileLock file_;
};

}  // namespace shoal::coordinator
