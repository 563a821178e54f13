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
  return fields<&T::what, &T::bytes>();
}

struct SpaceTableAnswer {
  std::string name;
  std::int64_t rows = 0;
  Bytes bytes;
};
constexpr auto fields_of(Of<SpaceTableAnswer>) {
  using T = SpaceTableAnswer;
  return fields<&T::name, &T::rows, &T::bytes>();
}

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
  return fields<&T::job, &T::name, &T::owner, &T::phase, &T::checkpoints, &T::history,
                &T::series>();
}

struct SpaceAnswer {
  std::vector<SpacePartAnswer> parts;
  Bytes checkpoint_budget;
  std::vector<SpaceTableAnswer> tables;
  std::vector<SpaceJobAnswer> jobs;
};
constexpr auto fields_of(Of<SpaceAnswer>) {
  using T = SpaceAnswer;
  return fields(field<&T::parts>(), field<&T::checkpoint_budget>(or_none()), field<&T::tables>(),
                field<&T::jobs>());
}
constexpr const char* schema_name(Of<SpaceAnswer>) { return "Space"; }

}  // namespace shoal::coordinator::rest
