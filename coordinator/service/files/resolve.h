// The datasets of a job at its submission: names become hashes, and what no agent could train on is
// refused before anybody tries.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "base/result.h"
#include "coordinator/service/files/file_store.h"
#include "job/job_spec.h"

namespace shoal::coordinator {

// Gives each dataset without a hash that of the manifest which its name has now. kValidation, with
// the field ("data.dataset"): there is no such dataset, `who` may not read it (the same error), or
// the job cannot train on it. A job with data.train is as it was.
Status resolve_datasets(JobSpec& spec, const FileStore& files, const ObjectUser& who);

// The uploads that a submitted job names, which are not here or which none of `users` may read: the
// same error for both, with the field. Datasets have their hashes.
std::vector<FieldError> refused_uploads(const JobSpec& spec, const FileStore& files,
                                        std::span<const ObjectUser> users);

// For the audit trail: uploads that are here, but that none of `users` may read; "dataset books of
// ada". Empty: none.
std::string forbidden_uploads(const JobSpec& spec, const FileStore& files,
                              std::span<const ObjectUser> users);

// How many sequences one replica is best leased at once, so that replicas fetch little that others
// train on (coordinator/core/decisions/data_ledger.h); 0: any number. Of a resolved job.
std::int64_t lease_unit_of(const JobSpec& spec, const FileStore& files);

}  // namespace shoal::coordinator
