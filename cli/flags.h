// The flags of commands that have many: `shoal up`, `shoal tokenizer`, `shoal dataset prepare`,
// `shoal dataset add` and `shoal checkpoint export`, bound to what commands/ and up_command.h take.
// main.cc has the commands.
#pragma once

#include "cli/commands/commands.h"
#include "cli/commands/tokenizer.h"
#include "cli/up_command.h"

namespace CLI {
class App;
}

namespace shoal::cli {

void add_up_flags(CLI::App& command, UpOptions& options);
void add_train_flags(CLI::App& command, TrainTokenizerOptions& options);
void add_encode_flags(CLI::App& command, EncodeOptions& options);
void add_decode_flags(CLI::App& command, EncodeOptions& options);
void add_prepare_flags(CLI::App& command, PrepareDatasetOptions& options);
void add_dataset_flags(CLI::App& command, DatasetOptions& options);
void add_export_flags(CLI::App& command, ExportOptions& options);

}  // namespace shoal::cli
