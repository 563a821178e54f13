#include "cli/commands/prepared_folder.h"

#include <filesystem>

#include "cli/api.h"
#include "threads/file_content.h"
#include "tokenizer/corpus/shard_writer.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerJson = "tokenizer.json";

Error bad_folder(const std::string& folder, const std::string& what) {
  return {Code::kValidation, folder + "/" + corpus::kDatasetFile + " " + what, "",
          "run `shoal dataset prepare` again, or name the shards and --tokens yourself"};
}

std::string path_in(const std::string& folder, const std::string& file) {
  return (fs::path(folder) / fs::path(file).filename()).string();
}

}  // namespace

bool is_prepared_folder(const std::string& path) {
  std::error_code failure;
  return fs::is_regular_file(fs::path(path) / corpus::kDatasetFile, failure);
}

Result<PreparedFolder> read_prepared_folder(const std::string& folder) {
  const std::string text = file_content(fs::path(folder) / corpus::kDatasetFile).value_or("");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || number_at(json, "format", 0) != 1) {
    return bad_folder(folder, "is no description of format 1");
  }
  const auto tokens = parse_enumerator<Tokenizer>(text_at(json, "tokens", ""));
  const Json* shards = at_path(json, "shards");
  if (!tokens || shards == nullptr || !shards->is_array() || shards->empty()) {
    return bad_folder(folder, "does not say its tokens and shards");
  }
  PreparedFolder prepared{.tokens = *tokens};
  for (const Json& shard : *shards) {
    prepared.shards.push_back(path_in(folder, text_at(shard, "file", "")));
    prepared.sha256.push_back(text_at(shard, "sha256", ""));
  }
  if (text_at(json, "tokenizer/file", "") == kTokenizerJson) {
    prepared.tokenizer = path_in(folder, kTokenizerJson);
  }
  return prepared;
}

Status check_prepared(const PreparedFolder& folder, const std::vector<LocalShard>& shards) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].shard.sha256 == folder.sha256[i]) continue;
    return Error{Code::kValidation, shards[i].path + " has changed since it was prepared", "",
                 "run `shoal dataset prepare` again"};
  }
  return {};
}

}  // namespace shoal::cli
