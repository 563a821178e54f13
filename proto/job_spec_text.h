// Job specifications as text: TOML for people, JSON for the REST API and the store. Both have the
// same tables and keys. Reading refuses unknown keys (naming the nearest right one), wrong types
// and values outside their type; it also runs shoal::validate(), so a spec that was read is a good
// spec. In a person's text it also refuses fields that have no effect
// (job/ineffective_options.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/field_error.h"
#include "job/job_spec.h"

namespace shoal::proto {

struct SpecProblems {
  std::string summary;  // "3 fields are not accepted" or a syntax error with line and column
  std::vector<FieldError> fields;  // empty for a syntax error
  bool syntax = false;             // not TOML or JSON at all
};

struct SpecOrProblems {
  JobSpec spec;  // meaningful when !problems
  std::optional<SpecProblems> problems;
};

SpecOrProblems read_spec_toml(std::string_view text);
SpecOrProblems read_spec_json(std::string_view text);

// What spec_to_json() or sent_spec() wrote, for the store, messages between processes and
// checkpoints: the name may be missing, what an ineffective field says is passed over, and so are
// keys that a former version had.
SpecOrProblems read_kept_spec(std::string_view json);

nlohmann::ordered_json spec_to_json(
    const JobSpec& spec);  // every field, in the order of the TOML form

}  // namespace shoal::proto
