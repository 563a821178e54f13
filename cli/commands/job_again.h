// `shoal job clone` and `shoal job restart`: a new job from the text that an old one was submitted
// as, with its comments.
#pragma once

#include <set>
#include <string>

#include "cli/commands/commands.h"

namespace shoal::cli {

// The text of this job, as the API shows it, as a file: its relative data path begins where the old
// job read it. kNotFound: it has none.
Result<JobFile> file_of_job(const Api& api, const Json& job);

// "name-2", or the next that nobody has.
std::string free_name(const std::string& name, const std::set<std::string>& taken);

}  // namespace shoal::cli
