// Whether the files that a writer announced are the whole part of a stage, of the state that the
// job has committed. An incomplete part would be stored, older checkpoints would be deleted for it,
// and the job could not resume.
//
// A writer of protocol 5 names the role of each file and the anchor that its weights are of. A
// writer of protocol 4 names neither: its kind is known by the names of its files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/enumerators.h"
#include "job/job_spec.h"
#include "messages/message_parts.h"

namespace shoal::coordinator {

using shoal::to_string;

enum class PartProblem { kNone, kMissing, kTwice, kWithoutRole, kOtherAnchor };
constexpr auto enumerators_of(Of<PartProblem>) {
  using enum PartProblem;
  return enumerators<PartProblem>({{kNone, "none"},
                                   {kMissing, "missing"},
                                   {kTwice, "twice"},
                                   {kWithoutRole, "without_role"},
                                   {kOtherAnchor, "other_anchor"}});
}

struct PartVerdict {
  PartProblem problem = PartProblem::kNone;
  std::string file;  // its path or role; of kOtherAnchor none
  bool operator==(const PartVerdict&) const = default;
};

struct PartToCheck {
  const JobSpec& spec;
  StageIndex stage = 0;
  std::size_t stages = 1;
  Digest committed;                     // the anchor of the stage
  const std::vector<FileEntry>& files;  // as announced
  Digest anchor;                        // as announced; zero: of protocol 4
};

PartVerdict check_part(const PartToCheck& part);

// For people: "it has no file model.safetensors".
std::string sentence_of(const PartVerdict& verdict);

}  // namespace shoal::coordinator
