// Whether an agent may run the program of a job (trainer.kind = "python"): one rule for the
// coordinator, which places a job where it may run, and for the agent, which decides.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "job/job_spec.h"

namespace shoal {

// How an agent bounds memory, processes and disk of the programs that it runs.
enum class ProgramLimits {
  kNone,     // not said, or it runs none
  kCgroup,   // cgroup v2: the kernel enforces them
  kWatched,  // no delegated cgroup: the agent watches RSS and folder sizes, and kills
};
constexpr auto enumerators_of(Of<ProgramLimits>) {
  using enum ProgramLimits;
  return enumerators<ProgramLimits>({{kNone, "none"}, {kCgroup, "cgroup"}, {kWatched, "watched"}});
}

// What the operator of an agent allows; nothing unless it is said.
struct AllowedPrograms {
  bool beneath_root = false;           // programs in a folder of the host (--trainer-root)
  std::vector<std::string> code_from;  // uploaded code of these owners; "*": of anybody
  ProgramLimits limits = ProgramLimits::kNone;
  bool operator==(const AllowedPrograms&) const = default;
};
constexpr auto fields_of(Of<AllowedPrograms>) {
  using T = AllowedPrograms;
  return fields(field<&T::beneath_root>("runs_programs"), field<&T::code_from>(),
                field<&T::limits>("program_limits"));
}

struct ProgramRefusal {
  std::string pointer;  // of the job's field
  std::string what;     // "code of ada"
  std::string option;   // of shoal-agent, which would allow it
  bool operator==(const ProgramRefusal&) const = default;
};

// None: it may run. `owner`: of the job; empty: not known, which "*" alone allows.
std::optional<ProgramRefusal> why_not_run(const TrainerSpec& runs, const std::string& owner,
                                          const AllowedPrograms& allowed);

}  // namespace shoal
