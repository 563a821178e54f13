// A copy of a coordinator's folder that can be put back: the database as of one moment, the
// checkpoints and uploaded files that it names, and the cluster's CA. The coordinator may run
// meanwhile. And the other half, without which a backup is a hope: whether such a copy would start,
// with every file that its records name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace shoal::coordinator {

struct BackupReport {
  std::int64_t checkpoints = 0;
  std::int64_t in_store = 0;  // checkpoints of which only the place in an object store is copied
  std::int64_t files = 0;     // uploaded ones: shards of datasets, code
  Bytes bytes;                // of all of these
};

// Into `to`, which is made and must be new or empty. Errors name --data-dir or --to. Fails, and
// leaves what it copied, where a checkpoint or a file that the copy names cannot be read.
Result<BackupReport> back_up_folder(const std::string& data_dir, const std::string& to);

// One line for people each: what is wrong, and what to do.
struct BackupCheck {
  std::vector<std::string> problems;  // empty: it would start, and nothing that it names is missing
  std::vector<std::string> jobs;      // "job_1 kjv training, round 14, newest checkpoint ckpt_3"
  BackupReport content;
};

// Reads everything and changes nothing. An Error: there is no database to look at.
Result<BackupCheck> check_backup(const std::string& folder);

}  // namespace shoal::coordinator
