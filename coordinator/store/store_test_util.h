// For the tests of the store: a folder that goes away, and waiting for a write. Records of every
// kind are in records_test_util.h.
#pragma once

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include <stdlib.h>

#include "base/check.h"
#include "coordinator/core/records/records_test_util.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "shoal-store-XXXXXX").string();
    SHOAL_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Status write_and_wait(Store& store, std::vector<Record> records) {
  std::promise<Status> written;
  store.write(std::move(records), [&](Status status) { written.set_value(status); });
  return written.get_future().get();
}

}  // namespace shoal::coordinator
