// The answer of a dry run in words: what a job would need, what the coordinator notes about it, and
// the command that starts it.
#pragma once

#include <string>
#include <vector>

#include "cli/api.h"
#include "cli/commands/commands.h"

namespace shoal::cli {

// A line each: parameters, memory, rounds.
std::string estimate_text(const Json& dry_run);

// What does not refuse the job but may surprise: sentences. None of an older coordinator.
std::vector<std::string> notes_of(const Json& dry_run);
void say_notes(const Json& dry_run);

// "shoal job submit mine.toml --set train.lr=0.1", ready for a shell: the same job as was checked.
std::string submit_command(const SubmitOptions& options);

}  // namespace shoal::cli
