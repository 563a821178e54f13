// The GPUs of the stand-in for NVML (fake_nvml.cc), in a folder of files that a test changes while
// the driver is asked.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include "agent/host/driver_helper.h"
#include "agent/host/folder_test_util.h"

namespace shoal::agent {

class FakeGpus {
 public:
  // Their UUIDs are GPU-NAME, and the driver lists them in the order of the names.
  explicit FakeGpus(std::initializer_list<const char*> names) {
    for (const char* name : names) std::filesystem::create_directories(folder_.path() + "/" + name);
    ::setenv("FAKE_NVML_FOLDER", folder_.path().c_str(), 1);
  }
  ~FakeGpus() { ::unsetenv("FAKE_NVML_FOLDER"); }
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  // "a/temperature" of a GPU, "init" of the driver. It is read whole or not at all.
  void set(const std::string& file, const std::string& text) const {
    const std::string path = folder_.path() + "/" + file, made = folder_.path() + "/.new";
    std::ofstream(made) << text;
    std::filesystem::rename(made, path);
  }
  void unset(const std::string& file) const {
    std::filesystem::remove(folder_.path() + "/" + file);
  }

  // A healthy answer comes in time on a busy host, too.
  static DriverOptions driver() {
    return {.library = FAKE_NVML, .program = SHOAL_AGENT, .answer_limit = seconds(2)};
  }

 private:
  TestFolder folder_;
};

}  // namespace shoal::agent
