#include "job/data_rules.h"

#include "base/text.h"

namespace shoal {
namespace {

constexpr const char* kField = "data.train";

constexpr std::string_view kNameStart = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kNameRest = "abcdefghijklmnopqrstuvwxyz0123456789._-";

}  // namespace

bool is_dataset_name(std::string_view name) {
  return !name.empty() && name.size() <= kDatasetNameMax &&
         kNameStart.find(name.front()) != std::string_view::npos &&
         name.find_first_not_of(kNameRest) == std::string_view::npos;
}

bool is_sha256_hex(std::string_view text) { return is_hex(text, 64); }

std::optional<DatasetRef> parse_dataset(std::string_view text) {
  const auto at = text.find('@');
  const std::string_view name = text.substr(0, at);
  if (!is_dataset_name(name)) return std::nullopt;
  if (at == std::string_view::npos) return DatasetRef{std::string(name), {}};
  const std::string_view manifest = text.substr(at + 1);
  if (!is_sha256_hex(manifest)) return std::nullopt;
  return DatasetRef{std::string(name), std::string(manifest)};
}

std::string to_string(const DatasetRef& dataset) {
  return dataset.manifest.empty() ? dataset.name : dataset.name + "@" + dataset.manifest;
}

std::vector<MixturePart> datasets_of(const DataSpec& data) {
  if (!data.dataset.empty()) return {{data.dataset, 1}};
  return data.mixture;
}

std::vector<std::string> uploads_of(const JobSpec& spec) {
  std::vector<std::string> uploads;
  for (const MixturePart& part : datasets_of(spec.data)) {
    const auto dataset = parse_dataset(part.dataset);
    if (dataset && !dataset->manifest.empty()) uploads.push_back(dataset->manifest);
  }
  if (spec.trainer.code.starts_with(kCodePrefix)) {
    uploads.push_back(spec.trainer.code.substr(kCodePrefix.size()));
  }
  return uploads;
}

bool is_data_root_name(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789_-";
  return !name.empty() && name.size() <= kDataRootNameMax &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

DataPath parse_data_path(std::string_view text) {
  const auto colon = text.find(':');
  const bool rooted = colon != std::string_view::npos && is_data_root_name(text.substr(0, colon));
  if (!rooted) return {{}, text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::optional<std::string> folder_of_weights(std::string_view init) {
  constexpr std::string_view kHuggingFace = "hf:";
  if (!init.starts_with(kHuggingFace) || init.size() == kHuggingFace.size()) return std::nullopt;
  return std::string(init.substr(kHuggingFace.size()));
}

std::optional<CheckpointId> checkpoint_of_weights(std::string_view init) {
  return parse_id<CheckpointTag>(init);
}

DataNeeds data_needs(const JobSpec& spec) {
  return {spec.data.tokenizer, spec.model.context, spec.model.vocab, spec.data.val_fraction};
}

std::int64_t bytes_per_token(Tokenizer tokenizer) {
  switch (tokenizer) {
    case Tokenizer::kBytes:
      return 1;
    case Tokenizer::kUint16:
      return 2;
    case Tokenizer::kUint32:
      return 4;
  }
  return 1;  // unreachable
}

std::int64_t token_at(std::span<const std::byte> bytes, Tokenizer tokenizer, std::size_t i) {
  const auto width = static_cast<std::size_t>(bytes_per_token(tokenizer));
  std::int64_t token = 0;
  for (std::size_t k = width; k-- > 0;) {
    token = token << 8 | std::to_integer<std::int64_t>(bytes[i * width + k]);
  }
  return token;
}

DataSplit split_of(const DataNeeds& needs, std::int64_t file_bytes) {
  const std::int64_t tokens = file_bytes / bytes_per_token(needs.tokenizer);
  return {tokens, static_cast<std::int64_t>(needs.val_fraction * static_cast<double>(tokens))};
}

Status check_data_size(const DataNeeds& needs, std::int64_t file_bytes, const std::string& path) {
  const DataSplit split = split_of(needs, file_bytes);
  const bool short_tail = needs.val_fraction > 0 && split.held_out < needs.context + 1;
  if (split.tokens - split.held_out >= 2 * needs.context && !short_tail) return {};
  return Error{Code::kNotFound,
               path + " is too short: " + std::to_string(split.tokens) + " tokens, of which " +
                   std::to_string(split.held_out) + " are held out; training needs " +
                   std::to_string(2 * needs.context) + ", validation " +
                   std::to_string(needs.context + 1),
               kField, "use a longer file, a shorter model.context or another data.val_fraction"};
}

Status check_data_tokens(const DataNeeds& needs, std::span<const std::byte> bytes,
                         std::int64_t first, const std::string& path) {
  const std::size_t count =
      bytes.size() / static_cast<std::size_t>(bytes_per_token(needs.tokenizer));
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t token = token_at(bytes, needs.tokenizer, i);
    if (token < needs.vocab) continue;
    return Error{Code::kValidation,
                 path + ": the token at position " +
                     std::to_string(first + static_cast<std::int64_t>(i)) +
                     " is not below model.vocab (" + std::to_string(needs.vocab) + ")",
                 kField, "raise model.vocab or use the tokenizer the file was made with"};
  }
  return {};
}

}  // namespace shoal
