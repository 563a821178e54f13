// What takes the space of the coordinator's folder, for people and programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "base/units.h"
#include "coordinator/core/records/job_record.h"

namespace shoal::coordinator::rest {

// One kind of content; what else lies in the folder adds a part of its own.
struct SpacePartAnswer {
  std::string what;
  Bytes bytes;
};
constexpr auto fields_of(Of<SpacePartAnswer>) {
  using T = SpacePartAnswer;
  return fields(field<&T::what>("what"), field<&T::bytes>("bytes"));
}
static_assert(lists_every_field<SpacePartAnswer>());

struct SpaceTableAnswer {
  std::string name;
  std::int64_t rows = 0;
  Bytes bytes;
};
constexpr auto fields_of(Of<SpaceTableAnswer>) {
  using T = SpaceTableAnswer;
  return fields(field<&T::name>("name"), field<&T::rows>("rows"), field<&T::bytes>("bytes"));
}
static_assert(lists_every_field<SpaceTableAnswer>());

struct SpaceJobAnswer {
  JobId job;
  std::string name;
  std::string owner;
  std::optional<JobPhase> phase;
  Bytes checkpoints;
  Bytes history;
  Bytes series;
};
constexpr auto fields_of(Of<SpaceJobAnswer>) {
  using T = SpaceJobAnswer;
  return fields(field<&T::job>("job"), field<&T::name>("name"), field<&T::owner>("owner"),
                field<&T::phase>("phase"), field<&T::checkpoints>("checkpoints"),
                field<&T::history>("history"), field<&T::series>("series"));
}
static_assert(lists_every_field<SpaceJobAnswer>());

struct SpaceAnswer {
  std::vector<SpacePartAnswer> parts;
  Bytes checkpoint_budget;
  std::vector<SpaceTableAnswer> tables;
  std::vector<SpaceJobAnswer> jobs;
};
constexpr auto fields_of(Of<SpaceAnswer>) {
  using T = SpaceAnswer;
  return fields(field<&T::parts>("parts"),
                field<&T::checkpoint_budget>("checkpoint_budget", or_none()),
                field<&T::tables>("tables"), field<&T::jobs>("jobs"));
}
static_assert(lists_every_field<SpaceAnswer>());
constexpr const char* schema_name(Of<SpaceAnswer>) { return "Space"; }

}  // namespace shoal::coordinator::rest
