// The fields of a job's text, TOML and JSON alike, out of the lists beside the
// structs of job/job_spec.h: a member is a key by the same name, a struct a
// table. The few whose text is another one (betas, sync.every, swarm.stages)
// have a form of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "job/job_spec.h"

namespace shoal::proto {

struct SpecField {
  std::string table;  // "sync/outer"; "" for the top level
  std::string key;
  // Empty, or what was given and what is accepted.
  std::string (*read)(const nlohmann::ordered_json& from, JobSpec& to);
  nlohmann::ordered_json (*write)(const JobSpec& from);
  nlohmann::ordered_json (*schema)();  // JSON Schema of its type
};

// A table inside a table: a reader of "" knows "model", a reader of "sync"
// knows "outer".
struct SpecTable {
  std::string parent, key, path;
};

const std::vector<SpecField>& spec_fields();
const std::vector<SpecTable>& spec_tables();

// The properties of a job in api/openapi.json: types, words and the defaults of diloco. What people
// are told beside (descriptions, patterns) is written there by hand.
nlohmann::ordered_json spec_schema();

// A value as a refusal names it: "'int9'", "12", "a table".
std::string given(const nlohmann::ordered_json& value);

}  // namespace shoal::proto
