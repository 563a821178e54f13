#include "agent/host/program_cgroup.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "base/number_text.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "program-";
constexpr int kTriesMax = 50;  // until a killed cgroup is empty
constexpr std::chrono::milliseconds kTryEvery{2};

// The file must be there: the kernel makes it. An errno, or 0.
int write_value(const std::string& file, const std::string& value) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const ssize_t written = ::write(descriptor, value.data(), value.size());
  const int why = written < 0 ? errno : 0;
  ::close(descriptor);
  return why;
}

Error unusable(const std::string& folder, const std::string& why) {
  return {Code::kValidation, folder + " " + why, kCgroupFlag,
          "name a cgroup (version 2) that belongs to this agent, in which no process is, with "
          "memory and pids in its cgroup.controllers, or leave it out"};
}

bool has_word(const std::string& file, const std::string& word) {
  std::ifstream in(file);
  for (std::string each; in >> each;) {
    if (each == word) return true;
  }
  return false;
}

// "NAME COUNT" lines of memory.events and pids.events.
std::int64_t count_of(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  std::string each;
  for (std::int64_t count = 0; in >> each >> count;) {
    if (each == name) return count;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<ProgramCgroups>> ProgramCgroups::open(const std::string& folder,
                                                             const ProgramBounds& bounds) {
  for (const char* controller : {"memory", "pids"}) {
    if (!has_word(folder + "/cgroup.controllers", controller)) {
      return unusable(folder, "does not bound " + std::string(controller));
    }
  }
  const int why = write_value(folder + "/cgroup.subtree_control", "+memory +pids");
  if (why != 0) return unusable(folder, "cannot be used: " + std::string(std::strerror(why)));
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator(folder, ignored)) {  // of programs that have ended
    if (entry.path().filename().string().starts_with(kPrefix)) ::rmdir(entry.path().c_str());
  }
  return std::unique_ptr<ProgramCgroups>(new ProgramCgroups(folder, bounds));
}

std::string ProgramCgroups::group_of(TrainerId trainer) const {
  return folder_ + "/" + kPrefix + std::to_string(trainer.slot) + "-" +
         std::to_string(trainer.generation);
}

Result<std::string> ProgramCgroups::make(TrainerId trainer) const {
  const std::string group = group_of(trainer);
  std::error_code error;
  fs::create_directory(group, error);
  if (error) return unusable(group, "cannot be made: " + error.message());
  const std::pair<const char*, std::string> values[] = {
      {"/memory.max", std::to_string(bounds_.memory.count())},
      {"/memory.oom.group", "1"},
      {"/pids.max", std::to_string(bounds_.processes)}};
  for (const auto& [file, value] : values) {
    const int why = write_value(group + file, value);
    if (why != 0) return unusable(group + file, "cannot be set: " + std::string(strerror(why)));
  }
  (void)write_value(group + "/memory.swap.max", "0");  // absent where the host has no swap
  return group + "/cgroup.procs";
}

std::string ProgramCgroups::why_ended(TrainerId trainer) const {
  if (count_of(group_of(trainer) + "/memory.events", "oom_kill") == 0) return {};
  return "it needed more memory than " + std::string(kMemoryFlag) + " of its agent allows, " +
         size_text(static_cast<double>(bounds_.memory.count()));
}

void ProgramCgroups::remove(TrainerId trainer) const {
  const std::string group = group_of(trainer);
  (void)write_value(group + "/cgroup.kill", "1");
  for (int i = 0; i < kTriesMax && ::rmdir(group.c_str()) != 0 && errno == EBUSY; ++i) {
    std::this_thread::sleep_for(kTryEvery);
  }
}

}  // namespace shoal::agent
