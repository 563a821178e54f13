// One process per file or folder: an flock, which the kernel drops with the process, however it
// dies.
#pragma once

#include <string>

namespace shoal {

class FileLock {
 public:
  // Opens `path` as open(2) does with `flags` and O_CLOEXEC (a created file has the mode 0600), and
  // locks it without waiting.
  FileLock(const std::string& path, int flags);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const { return failure_ == 0; }
  bool is_taken() const;                          // by another process, or another FileLock
  int failure() const { return failure_; }        // errno of what failed; 0 while held
  int descriptor() const { return descriptor_; }  // -1: `path` could not be opened

 private:
  int descriptor_ = -1, failure_ = 0;
};

}  // namespace shoal
