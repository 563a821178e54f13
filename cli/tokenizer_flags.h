// The flags of `shoal tokenizer` and of `shoal dataset prepare`, bound to what commands/tokenizer.h
// takes. main.cc has the commands themselves.
#pragma once

#include "cli/commands/tokenizer.h"

namespace CLI {
class App;
}

namespace shoal::cli {

void add_train_flags(CLI::App& command, TrainTokenizerOptions& options);
void add_encode_flags(CLI::App& command, EncodeOptions& options);
void add_decode_flags(CLI::App& command, EncodeOptions& options);
void add_prepare_flags(CLI::App& command, PrepareDatasetOptions& options);

}  // namespace shoal::cli
