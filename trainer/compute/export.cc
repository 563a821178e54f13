// See export.h.
#include "trainer/compute/export.h"

#include <array>
#include <system_error>

#include <nlohmann/json.hpp>

#include "trainer/compute/checkpoint.h"
#include "trainer/compute/checkpoint_config.h"
#include "trainer/compute/job_tokenizer.h"
#include "trainer/plain/parameter_layout.h"
#include "trainer/plain/safetensors.h"

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

// The tensors of each file, in the order of the model.
std::vector<std::vector<TensorSlot>> shards_of(const ModelSpec& model, Precision precision,
                                               Bytes most) {
  std::vector<std::vector<TensorSlot>> shards;
  std::int64_t room = 0;
  for (TensorSlot& slot : parameter_layout(model, whole_model(model))) {
    const std::int64_t bytes = slot.count * bytes_per_value(precision);
    if (shards.empty() || bytes > room) {
      shards.emplace_back();
      room = most.count();
    }
    room -= bytes;
    shards.back().push_back(std::move(slot));
  }
  return shards;
}

Status write_shards(const ExportOptions& options, const StoredModel& checkpoint,
                    const std::vector<std::vector<TensorSlot>>& shards, Bytes total) {
  std::vector<TensorPlace> places;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = model_file(static_cast<StageIndex>(i), shards.size());
    std::vector<TensorToWrite> tensors;
    for (const TensorSlot& slot : shards[i]) {
      tensors.push_back({slot.name, slot.shape,
                         checkpoint.values().subspan(static_cast<std::size_t>(slot.first),
                                                     static_cast<std::size_t>(slot.count))});
      places.push_back({slot.name, name});
    }
    const Status written =
        write_safetensors(options.out / name, tensors, {{"format", "pt"}}, options.precision);
    if (!written) return written;
  }
  if (shards.size() == 1) return {};
  return write_file(options.out / "model.safetensors.index.json", shard_index(places, total));
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
  return write_file(config, json.dump(2) + "\n");
}

}  // namespace

Result<Exported> export_checkpoint(const ExportOptions& options) {
  const auto checkpoint = StoredModel::open(options.checkpoint);
  if (!checkpoint) return checkpoint.error();
  if (Status s = make_empty_folder(options.out); !s) return s.error();
  const bool has_its_own = fs::exists(options.checkpoint / kTokenizerFile);
  if (!options.tokenizer.empty() || has_its_own) {
    const fs::path& from = options.tokenizer.empty() ? options.checkpoint : options.tokenizer;
    if (Status s = copy_tokenizer(from, options.out); !s) return s.error();
  }
  if (options.tokenizer.empty()) {
    if (Status s = describe_tokenizer(options, checkpoint->spec()); !s) return s.error();
  }
  const ModelSpec& model = checkpoint->spec().model;
  const auto shards = shards_of(model, options.precision, options.shard_max);
  const Bytes total(parameter_count(model) * bytes_per_value(options.precision));
  if (Status s = write_shards(options, *checkpoint, shards, total); !s) return s.error();
  const auto config = options.out / "config.json";
  if (Status s = write_file(config, model_config(model, options.precision)); !s) return s.error();
  const auto generation = options.out / "generation_config.json";
  if (Status s = write_file(generation, generation_config()); !s) return s.error();
  return Exported{shards.size(), total};
}

}  // namespace shoal::trainer
