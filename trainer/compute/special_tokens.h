// Which tokens begin, end and pad a text, as config.json and generation_config.json of the Hugging
// Face libraries name them: bos_token_id, eos_token_id, pad_token_id. A model whose files name no
// end never stops generating.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/text_tokenizer.h"

namespace shoal::trainer {

struct SpecialTokens {
  std::optional<std::int64_t> bos, pad;
  std::vector<std::int64_t> eos;  // each of them ends a text
  bool operator==(const SpecialTokens&) const = default;
};

// A file of a folder by its name, at most `most` bytes. kNotFound: the folder has none.
using ReadText = std::function<Result<std::string>(const std::string& name, std::uint64_t most)>;

// Those of a folder with a model, a tokenizer or both: of generation_config.json, else of
// config.json, else the tokens that tokenizer_config.json names, with their ids in tokenizer.json.
// Missing files name none, and ids outside of the vocabulary are left out: configurations that
// were made of defaults have them. The error of a file that is not JSON, or too long; `folder` is
// its name in messages.
Result<SpecialTokens> special_tokens_of(const ReadText& read, const std::string& folder,
                                        std::int64_t vocabulary);

// Reads a folder of this host.
Result<SpecialTokens> special_tokens_of(const std::filesystem::path& folder,
                                        std::int64_t vocabulary);

// Adds what the tokenizer of the training data says: documents end with its end of text, so the
// model ends with it, too.
void add_tokens_of(const tokenizer::TextTokenizer& tokenizer, SpecialTokens& tokens);

}  // namespace shoal::trainer
