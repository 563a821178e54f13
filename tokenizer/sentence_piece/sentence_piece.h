// A model of SentencePiece (tokenizer.model), read and run by its own library. That library carries
// a protobuf of its own, so a process with gRPC cannot have it: the command line links this folder,
// the trainer does not.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/text_tokenizer.h"

namespace shoal::tokenizer {

// kInvalidArgument: not such a model.
Result<std::unique_ptr<TextTokenizer>> sentence_piece_tokenizer(std::string_view content);

// A file of any kind: JSON is read as tokenizer.json, all else as SentencePiece's; "bytes" is the
// tokenizer without a file. Fails as read_tokenizer_file() and parse_tokenizer().
Result<std::unique_ptr<TextTokenizer>> load_any_tokenizer(const std::string& path);
Result<std::unique_ptr<TextTokenizer>> parse_any_tokenizer(std::string_view content,
                                                           const std::string& name);

}  // namespace shoal::tokenizer
