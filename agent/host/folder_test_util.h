// A folder that a test has to itself.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"

namespace shoal::agent {

class TestFolder {
 public:
  TestFolder() { SHOAL_CHECK(mkdtemp(path_.data()) != nullptr); }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/shoal-test-XXXXXX";
};

}  // namespace shoal::agent
