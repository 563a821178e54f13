// The datasets of a job at its submission: names become hashes, and what no agent could train on is
// refused before anybody tries.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "coordinator/service/files/file_store.h"
#include "job/job_spec.h"

namespace shoal::coordinator {

// Gives each dataset without a hash that of the manifest which its name has now. kValidation, with
// the field ("data.dataset"): there is no such dataset, or the job cannot train on it. A job with
// data.train is as it was.
Status resolve_datasets(JobSpec& spec, const FileStore& files);

// How many sequences one replica is best leased at once, so that replicas fetch little that others
// train on (coordinator/core/decisions/data_ledger.h); 0: any number. Of a resolved job.
std::int64_t lease_unit_of(const JobSpec& spec, const FileStore& files);

}  // namespace shoal::coordinator
