// Commands that run in shoal-trainer, the only binary that knows how a model lies in its files:
// this one finds the checkpoint and steps aside.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/commands.h"

namespace shoal::cli {

// The folder of a checkpoint: `checkpoint` itself if it is one, else what find_checkpoint() takes,
// downloaded into the cache of this user. `field` is the option that named it.
Result<std::string> local_checkpoint(const Context& context, const std::string& checkpoint,
                                     const std::string& field);

std::string trainer_program();  // its path

// Becomes `command`; returns only when that fails.
Error become(std::vector<std::string> command);

}  // namespace shoal::cli
