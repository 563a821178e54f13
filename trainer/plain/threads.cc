#include "trainer/plain/threads.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "base/thread_environment.h"

namespace shoal::trainer {

int useful_threads(const JobSpec& job, int limit) {
  const JobSpec spec = with_derived_fields(job);
  const auto rows = static_cast<double>(spec.train.microbatch * spec.model.context);
  const auto weights = static_cast<double>(spec.model.hidden * spec.model.ffn);
  const double operations = 2 * rows * weights;
  return static_cast<int>(std::clamp(operations / kOperationsPerThread, 1.0, limit * 1.0));
}

bool complete_thread_environment() {
  bool missing = false;
  for (const EnvironmentEntry& entry : kThreadEnvironment) {
    if (std::getenv(entry.name) != nullptr) continue;
    missing |= ::setenv(entry.name, entry.value, 0) == 0;
  }
  return missing;
}

void require_thread_environment(char** argv) {
  if (!complete_thread_environment()) return;
  // By its own name, which tools show, and not as /proc/self/exe.
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown) ::execv(program.c_str(), argv);
}

}  // namespace shoal::trainer
