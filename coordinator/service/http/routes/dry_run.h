// What a dry run says besides the plan: whether the training data is of use, and what does not
// refuse the job but may surprise its submitter.
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/service/http/message.h"
#include "data/data_roots.h"
#include "job/job_spec.h"

namespace shoal::coordinator::rest {

// Judges the file on the coordinator's host; agents on other hosts may have another one.
struct DataVerdict {
  bool checked = false;  // false: no such file lies beneath the data roots of this host
  std::string problem;   // empty: none found in its size and first tokens
  std::string remedy;
};
// Reads beneath `roots` only. Datasets were looked at when they were resolved.
DataVerdict look_at_data(const JobSpec& spec, const data::DataRoots& roots);
Json data_json(const DataVerdict& verdict);

// An agent that the plan names.
struct PlannedAgent {
  std::string name;
  bool measured = false;  // its device's speed is known
};

struct DryRunFacts {
  std::string name_taken_by;         // "job_2, which is training"; empty: the name is free
  std::vector<PlannedAgent> agents;  // one per place of the plan
  DataVerdict data;
};

// Sentences, the most important first.
std::vector<std::string> dry_run_notes(const JobSpec& spec, const PlacementDecision& plan,
                                       const DryRunFacts& facts);

}  // namespace shoal::coordinator::rest
