// The code of a job on its way to the coordinator (`--code FOLDER`).
#pragma once

#include <string>

#include "base/result.h"
#include "cli/api.h"
#include "cli/job_file.h"

namespace shoal::cli {

// Code as one file, and its name in a job: "sha256:…".
struct PackedCode {
  std::string bundle, name;
};

// The files of the folder that code_folder.h names. kValidation, field `--code`.
Result<PackedCode> pack_code(const std::string& folder);

// Names the code in the file's trainer.code. kValidation: the entry of the job is not a file of it.
Status name_code(const PackedCode& code, const std::string& folder, JobFile& file);

// Uploads what the coordinator does not have yet.
Status send_code(const Api& api, const PackedCode& code);

}  // namespace shoal::cli
