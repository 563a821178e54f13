// Which files of a folder are sent with a job as its code (`shoal job submit --code FOLDER`).
//
// Left out are the folders .git, .venv and __pycache__, compiled Python files, and what a file
// .shoalignore at the top of the folder names: a pattern of the shell on each line ("#" begins a
// comment). A pattern without a slash fits names at any depth, one with a slash the path from the
// folder; what fits a folder leaves out all that is in it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace shoal::cli {

// Paths from the folder, sorted. kValidation: the folder is not there, holds no files, or holds a
// link or a device that is not left out; the field is `--code`.
Result<std::vector<std::string>> code_files(const std::string& folder);

}  // namespace shoal::cli
