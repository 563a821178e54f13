// `shoal-trainer export`: a checkpoint as a folder for the Hugging Face libraries
// (trainer/compute/export.h), as a command.
#pragma once

#include "trainer/compute/export.h"

namespace shoal::trainer {

// The exit code; what was written on stdout (`json`: as an object), messages on stderr.
int export_model(const ExportOptions& options, bool json);

}  // namespace shoal::trainer
