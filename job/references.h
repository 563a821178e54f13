// The table of references: for each text field of a job specification, whether it names an object
// that the coordinator stores, and of which kind. Whoever accepts or resumes a job authorizes the
// objects of objects_of() (coordinator/core/records/access.h). A new text field has no rule until
// it is in this table, and the test of this table fails without one. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/job_spec.h"

namespace shoal {

enum class Reference {
  kText,        // no reference: name and description
  kHostPath,    // a path on the agents' hosts, which their operators grant (--data-root, ...)
  kCheckpoint,  // "ckpt_7"; model.init may also be a path on the hosts ("hf:PATH")
  kDataset,     // NAME or NAME@MANIFEST
  kCode,        // "sha256:HASH" of an uploaded bundle
};

struct ReferenceRule {
  std::string_view pointer;  // of the field in the specification; "*": each entry of a list
  Reference kind = Reference::kText;
  // What the field says, one entry for each value that is set; null where no object is named.
  std::vector<std::string> (*values)(const JobSpec& spec) = nullptr;
};

// One rule for each text field.
std::span<const ReferenceRule> reference_rules();

struct NamedObject {
  std::string pointer;  // "/model/init"; for an entry of a list the pointer of the list
  Reference kind = Reference::kText;
  std::string text;  // as the specification says it
  bool operator==(const NamedObject&) const = default;
};
// The stored objects that a job names, in the order of the table.
std::vector<NamedObject> objects_of(const JobSpec& spec);

}  // namespace shoal
