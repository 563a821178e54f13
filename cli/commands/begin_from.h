// `--from` of `shoal job submit`: a new job begins from the weights of an old one, and has its
// model.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/commands.h"

namespace shoal::cli {

// Assignments like those of --set: the fields of `model`, the [model] of the old job, that `file`
// leaves out. Not those that would say nothing (rotary positions that are not scaled), and no tied
// embeddings for a pipeline.
std::vector<std::string> fields_to_take(const Json& model, const Json& file);

// Adds model.init and these fields to `file`. `from`: a checkpoint, or a job: its newest one.
Status begin_from(const Api& api, const std::string& from, JobFile& file);

}  // namespace shoal::cli
