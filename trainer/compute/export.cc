// See export.h.
#include "trainer/compute/export.h"

#include <array>
#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include "trainer/compute/checkpoint.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/compute/job_tokenizer.h"
#include "trainer/compute/program_tensors.h"
#include "trainer/plain/parameter_layout.h"
#include "trainer/plain/safetensors.h"
#include "transfer/file_writer.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;

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

// The tensors of each file, in their order.
std::vector<std::vector<TensorToWrite>> shards_of(std::vector<TensorToWrite> tensors,
                                                  const ExportOptions& options) {
  std::vector<std::vector<TensorToWrite>> shards;
  std::int64_t room = 0;
  for (TensorToWrite& tensor : tensors) {
    const auto count = static_cast<std::int64_t>(tensor.values.size());
    const std::int64_t bytes = count * bytes_per_value(options.precision);
    if (shards.empty() || bytes > room) {
      shards.emplace_back();
      room = options.shard_max.count();
    }
    room -= bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

Result<Exported> write_shards(const ExportOptions& options, std::vector<TensorToWrite> tensors) {
  const auto shards = shards_of(std::move(tensors), options);
  std::vector<TensorPlace> places;
  Exported done{shards.size(), {}};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = model_file(static_cast<StageIndex>(i), shards.size());
    for (const TensorToWrite& tensor : shards[i]) {
      const auto count = static_cast<std::int64_t>(tensor.values.size());
      places.push_back({tensor.name, name});
      done.bytes += Bytes(count * bytes_per_value(options.precision));
    }
    const auto written =
        write_safetensors(options.out / name, shards[i], {{"format", "pt"}}, options.precision);
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

// The library's own model: what the Hugging Face libraries load.
Result<Exported> export_model(const ExportOptions& options) {
  const auto checkpoint = StoredModel::open(options.checkpoint);
  if (!checkpoint) return checkpoint.error();
  if (Status s = make_empty_folder(options.out); !s) return s.error();
  if (Status s = bring_tokenizer(options); !s) return s.error();
  if (options.tokenizer.empty()) {
    if (Status s = describe_tokenizer(options, checkpoint->spec()); !s) return s.error();
  }
  const auto tokens = special_tokens(options, checkpoint->spec());
  if (!tokens) return tokens.error();
  const ModelSpec& model = checkpoint->spec().model;
  std::vector<TensorToWrite> tensors;
  for (const TensorSlot& slot : parameter_layout(model, whole_model(model))) {
    const auto values = checkpoint->values().subspan(static_cast<std::size_t>(slot.first),
                                                     static_cast<std::size_t>(slot.count));
    tensors.push_back({slot.name, slot.shape, values});
  }
  const auto done = write_shards(options, std::move(tensors));
  if (!done) return done;
  const auto config = options.out / "config.json";
  const std::string text = model_config(model, options.precision, *tokens);
  if (auto w = write_whole_file(config, text); !w) return w.error();
  const auto generation = options.out / "generation_config.json";
  if (auto w = write_whole_file(generation, generation_config(*tokens)); !w) return w.error();
  return done;
}

// A program's own model: its parameters under its names, and nothing that says what they mean.
Result<Exported> export_program(const ExportOptions& options) {
  const auto parameters = read_program(options.checkpoint);
  if (!parameters) return parameters.error();
  if (Status s = make_empty_folder(options.out); !s) return s.error();
  if (Status s = bring_tokenizer(options); !s) return s.error();
  const std::span<const float> values(parameters->values);
  std::vector<TensorToWrite> tensors;
  for (const ProgramTensor& one : parameters->tensors) {
    tensors.push_back({one.name, one.shape, values.subspan(one.first, one.count)});
  }
  return write_shards(options, std::move(tensors));
}

}  // namespace

Result<Exported> export_checkpoint(const ExportOptions& options) {
  return is_of_program(options.checkpoint) ? export_program(options) : export_model(options);
}

}  // namespace shoal::trainer
