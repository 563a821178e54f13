// What the file of data.train must be for a job: long enough to train and to validate on, and
// without a token that the model has no entry for. Pure: who has the file says how long it is and
// shows its bytes. The command line asks before it submits, the coordinator in a dry run, a trainer
// when it opens the file; so all three say the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "job/job_spec.h"

namespace shoal {

// data.train is a path of each agent's host, or ROOT:PATH: a file beneath the root of that name
// (shoal-agent --data-root). "./a:b" is a path with a colon.
struct DataPath {
  std::string_view root;  // empty: `path` is the whole text
  std::string_view path;
};
DataPath parse_data_path(std::string_view text);

// What model.init names: the data path of a folder, or a checkpoint. None: not such a thing.
std::optional<std::string> folder_of_weights(std::string_view init);
std::optional<CheckpointId> checkpoint_of_weights(std::string_view init);

// A dataset that the coordinator has, as a job names it: NAME, or NAME@HASH with the SHA-256 of its
// manifest in hex, which submission adds.
struct DatasetRef {
  std::string name;
  std::string manifest;  // 64 lower-case hex characters, or empty
  bool operator==(const DatasetRef&) const = default;
};
inline constexpr std::size_t kDatasetNameMax = 63;
inline constexpr std::size_t kMixtureMax = 64;
bool is_dataset_name(std::string_view name);  // of a-z, 0-9, '.', '_' and '-'; begins with neither
bool is_sha256_hex(std::string_view text);
std::optional<DatasetRef> parse_dataset(std::string_view text);
std::string to_string(const DatasetRef& dataset);
// The datasets of a job in the order of its mixture, each with its weight; none with data.train.
std::vector<MixturePart> datasets_of(const DataSpec& data);

// SHA-256 of the uploaded files that a job needs: manifests of its datasets, and its code. A
// dataset without a hash was not submitted yet.
std::vector<std::string> uploads_of(const JobSpec& spec);

inline constexpr std::size_t kDataRootNameMax = 64;
bool is_data_root_name(std::string_view name);  // of a-z, 0-9, '_' and '-'

// The fields of a job that decide it.
struct DataNeeds {
  Tokenizer tokenizer = Tokenizer::kBytes;
  std::int64_t context = 0;
  std::int64_t vocab = 0;
  double val_fraction = 0;
};
DataNeeds data_needs(const JobSpec& spec);

std::int64_t bytes_per_token(Tokenizer tokenizer);
// The i-th token of `bytes`, which begin with a whole one.
std::int64_t token_at(std::span<const std::byte> bytes, Tokenizer tokenizer, std::size_t i);

struct DataSplit {
  std::int64_t tokens = 0;
  std::int64_t held_out = 0;  // the last ones, to validate on
};
DataSplit split_of(const DataNeeds& needs, std::int64_t file_bytes);

// kNotFound: too short for one window of training and one of validation. `path` begins the message.
Status check_data_size(const DataNeeds& needs, std::int64_t file_bytes, const std::string& path);

// kValidation, with position and value, at the first token that model.vocab does not have. `bytes`
// begin at token `first` of the file; half a token at the end is not looked at.
Status check_data_tokens(const DataNeeds& needs, std::span<const std::byte> bytes,
                         std::int64_t first, const std::string& path);

}  // namespace shoal
