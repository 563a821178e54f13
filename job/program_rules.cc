#include "job/program_rules.h"

#include <algorithm>

namespace shoal {

std::optional<ProgramRefusal> why_not_run(const TrainerSpec& runs, const std::string& owner,
                                          const AllowedPrograms& allowed) {
  if (runs.kind != TrainerKind::kPython) return std::nullopt;
  if (runs.code.empty()) {
    if (allowed.beneath_root) return std::nullopt;
    return ProgramRefusal{"/trainer/entry", "programs of jobs", "--trainer-root FOLDER"};
  }
  const bool may = std::ranges::any_of(allowed.code_from, [&](const std::string& each) {
    return each == "*" || (!owner.empty() && each == owner);
  });
  if (may) return std::nullopt;
  if (owner.empty()) {
    return ProgramRefusal{"/trainer/code", "code of an owner that is not known",
                          "--allow-code-from '*'"};
  }
  return ProgramRefusal{"/trainer/code", "code of " + owner, "--allow-code-from " + owner};
}

}  // namespace shoal
