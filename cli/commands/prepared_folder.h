// A folder that `shoal dataset prepare` made: its shards in order, how their tokens lie in them,
// and the tokenizer that made them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands/dataset_files.h"

namespace shoal::cli {

struct PreparedFolder {
  Tokenizer tokens = Tokenizer::kUint16;
  std::vector<std::string> shards;  // paths
  std::vector<std::string> sha256;  // of each, when it was prepared
  std::string tokenizer;            // path of tokenizer.json; empty: it is SentencePiece's
};

bool is_prepared_folder(const std::string& path);

// kValidation: its description is damaged, or of another version.
Result<PreparedFolder> read_prepared_folder(const std::string& folder);

// kValidation: a shard has changed since.
Status check_prepared(const PreparedFolder& folder, const std::vector<LocalShard>& shards);

}  // namespace shoal::cli
