#include "job/data_rules.h"

namespace shoal {
namespace {

constexpr const char* kField = "data.train";

std::int64_t token_at(std::span<const std::byte> bytes, Tokenizer tokenizer, std::size_t i) {
  if (tokenizer == Tokenizer::kBytes) return std::to_integer<std::int64_t>(bytes[i]);
  return std::to_integer<std::int64_t>(bytes[2 * i]) |
         std::to_integer<std::int64_t>(bytes[2 * i + 1]) << 8;
}

}  // namespace

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

std::int64_t bytes_per_token(Tokenizer tokenizer) { return tokenizer == Tokenizer::kBytes ? 1 : 2; }

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
