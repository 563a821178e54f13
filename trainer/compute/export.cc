// See export.h.
#include "trainer/compute/export.h"

#include <array>
#include <system_error>

#include <nlohmann/json.hpp>

#include "replica/checkpoint/stored_weights.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/compute/job_tokenizer.h"
#include "transfer/file_writer.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;
using replica::TensorToWrite;

// What the libraries call the files of a tokenizer, whichever kind it is.
constexpr std::array kTokenizerFiles = {
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model",     "vocab.json",
    "merges.txt",     "added_tokens.json",     "chat_template.jinja", "special_tokens_map.json"};

Status make_empty_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    return Error{Code::kUnavailable, "cannot create " + folder.string() + ": " + failure.message(),
                 "--output", "name a folder where you may write"};
  }
  if (fs::is_empty(folder, failure)) return {};
  return Error{Code::kConflict, folder.string() + " is not empty", "--output",
               "name a new folder, or empty this one"};
}

std::int64_t bytes_of(const TensorToWrite& tensor, const ExportOptions& options) {
  return static_cast<std::int64_t>(replica::size_in_file(tensor, options.precision));
}

// The tensors of each file, in their order.
std::vector<std::vector<TensorToWrite>> shards_of(const std::vector<TensorToWrite>& tensors,
                                                  const ExportOptions& options) {
  std::vector<std::vector<TensorToWrite>> shards;
  std::int64_t room = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::int64_t bytes = bytes_of(tensor, options);
    if (shards.empty() || bytes > room) {
      shards.emplace_back();
      room = options.shard_max.count();
    }
    room -= bytes;
    shards.back().push_back(tensor);
  }
  return shards;
}

Result<Exported> write_shards(const ExportOptions& options,
                              const std::vector<TensorToWrite>& tensors) {
  const auto shards = shards_of(tensors, options);
  std::vector<TensorPlace> places;
  Exported done{shards.size(), {}};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = model_file(static_cast<StageIndex>(i), shards.size());
    for (const TensorToWrite& tensor : shards[i]) {
      places.push_back({tensor.name, name});
      done.bytes += Bytes(bytes_of(tensor, options));
    }
    const auto written = replica::write_safetensors(options.out / name, shards[i],
                                                    {{"format", "pt"}}, options.precision);
    if (!written) return written.error();
  }
  if (shards.size() == 1) return done;
  const auto index = options.out / "model.safetensors.index.json";
  if (auto w = write_whole_file(index, shard_index(places, done.bytes)); !w) return w.error();
  return done;
}

Status copy_tokenizer(const fs::path& from, const fs::path& to) {
  std::size_t copied = 0;
  for (const char* name : kTokenizerFiles) {
    std::error_code failure;
    if (!fs::is_regular_file(from / name, failure)) continue;
    if (fs::copy_file(from / name, to / name, failure)) ++copied;
    if (failure) {
      return Error{Code::kUnavailable,
                   "cannot copy " + (from / name).string() + ": " + failure.message(),
                   "--tokenizer", ""};
    }
  }
  if (copied > 0) return {};
  return Error{Code::kNotFound, from.string() + " has no file of a tokenizer", "--tokenizer",
               "name the folder of the model that you began from"};
}

// What `AutoTokenizer` of transformers asks for beside a tokenizer.json.
Status describe_tokenizer(const ExportOptions& options, const JobSpec& spec) {
  const fs::path config = options.out / "tokenizer_config.json";
  if (fs::exists(config)) return {};
  const auto tokenizer = checkpoint_tokenizer(options.out, spec);
  if (!tokenizer) return tokenizer.error();
  if (!*tokenizer) return {};
  nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                 {"model_max_length", spec.model.context}};
  if (const auto end = (*tokenizer)->end_of_text())
    json["eos_token"] = (*tokenizer)->token_of(*end);
  const auto written = write_whole_file(config, json.dump(2) + "\n");
  return written ? Status() : written.error();
}

// Of --tokenizer, and what that does not say, of the checkpoint. Shoal need not know every
// tokenizer that is passed on: of one that it does not, the files alone count.
Result<SpecialTokens> special_tokens(const ExportOptions& options, const JobSpec& spec) {
  const std::int64_t vocabulary = spec.model.vocab;
  auto tokens = special_tokens_of(options.checkpoint, vocabulary);
  if (!tokens) return tokens;
  if (!options.tokenizer.empty()) {
    auto named = special_tokens_of(options.tokenizer, vocabulary);
    if (!named) return named;
    if (!named->eos.empty()) tokens = std::move(named);
  }
  const auto tokenizer = checkpoint_tokenizer(options.out, spec);
  const bool silent = options.tokenizer.empty() || tokens->eos.empty();
  if (silent && tokenizer && *tokenizer) add_tokens_of(**tokenizer, *tokens);
  return tokens;
}

// --tokenizer, or the checkpoint's own, if it has one.
Status bring_tokenizer(const ExportOptions& options) {
  const bool has_its_own = fs::exists(options.checkpoint / kTokenizerFile);
  if (options.tokenizer.empty() && !has_its_own) return {};
  return copy_tokenizer(options.tokenizer.empty() ? options.checkpoint : options.tokenizer,
                        options.out);
}

// What the Hugging Face libraries read beside the tensors. Only of this library's own models: a
// program's checkpoint has nothing that says what its tensors mean.
Status write_configurations(const ExportOptions& options, const JobSpec& spec) {
  if (options.tokenizer.empty()) {
    if (Status s = describe_tokenizer(options, spec); !s) return s;
  }
  const auto tokens = special_tokens(options, spec);
  if (!tokens) return tokens.error();
  const auto config = options.out / "config.json";
  const std::string text = model_config(spec.model, options.precision, *tokens);
  if (auto w = write_whole_file(config, text); !w) return w.error();
  const auto generation = options.out / "generation_config.json";
  const auto written = write_whole_file(generation, generation_config(*tokens));
  return written ? Status() : written.error();
}

}  // namespace

Result<Exported> export_checkpoint(const ExportOptions& options) {
  const auto stored = replica::StoredWeights::open(options.checkpoint);
  if (!stored) return stored.error();
  if (Status s = make_empty_folder(options.out); !s) return s.error();
  if (Status s = bring_tokenizer(options); !s) return s.error();
  if (!stored->is_of_program()) {
    if (Status s = write_configurations(options, stored->spec()); !s) return s.error();
  }
  return write_shards(options, stored->tensors());
}

}  // namespace shoal::trainer
