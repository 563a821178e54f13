// See text_tokenizer.h. Here: bytes, which file is of which kind, and text as it comes.
#include "tokenizer/text_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tokenizer/hugging_face.h"
#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

class ByteEncoder : public Encoder {
 public:
  Status encode(std::string_view text, std::vector<TokenId>& out) override {
    for (const char byte : text) out.push_back(static_cast<unsigned char>(byte));
    return {};
  }
};

class ByteTokenizer : public TextTokenizer {
 public:
  std::string kind() const override { return "bytes"; }
  std::int64_t vocabulary() const override { return 256; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<ByteEncoder>(); }
  std::string decode(std::span<const TokenId> tokens, bool) const override {
    std::string bytes;
    for (const TokenId token : tokens) {
      if (token < 256) bytes += static_cast<char>(token);
    }
    return with_replacements(bytes);
  }
  std::optional<TokenId> id_of(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(token.front());
  }
  std::string token_of(TokenId id) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : std::string();
  }
  std::optional<TokenId> end_of_text() const override { return std::nullopt; }
  std::size_t safe_cut(std::string_view text, std::size_t most) const override {
    return std::min(most, text.size());
  }
};

}  // namespace

std::unique_ptr<TextTokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

Result<std::unique_ptr<TextTokenizer>> parse_tokenizer(std::string_view content,
                                                       const std::string& name) {
  const auto first = content.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return Error{Code::kInvalidArgument, name + ": the file is empty", "",
                 "name the tokenizer.json of a model"};
  }
  if (content[first] != '{') {
    return Error{Code::kInvalidArgument, name + ": is not a tokenizer.json", "",
                 "name the tokenizer.json of a model; the Hugging Face libraries write one for a "
                 "SentencePiece model, too (save_pretrained)"};
  }
  auto parts = parse_hugging_face(content);
  if (parts) return hugging_face_tokenizer(std::move(*parts));
  Error error = parts.error();
  error.message = name + ": " + error.message;
  return error;
}

Result<std::string> read_tokenizer_file(const std::string& path) {
  std::error_code failure;
  const auto size = std::filesystem::file_size(path, failure);
  std::ifstream file(path, std::ios::binary);
  if (failure || !file) {
    return Error{Code::kNotFound, path + " cannot be read", "",
                 "name the tokenizer.json of a model, or a SentencePiece model"};
  }
  if (size > kFileBytesMax) {
    return Error{Code::kResourceExhausted,
                 path + " has " + std::to_string(size) + " bytes, a tokenizer at most " +
                     std::to_string(kFileBytesMax),
                 "", "name the file of a tokenizer"};
  }
  std::string content(size, '\0');
  file.read(content.data(), static_cast<std::streamsize>(size));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return content;
}

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::size_t kHeldMost = 16;  // tokens; a character has at most four bytes

}  // namespace

// A token is decoded after the ones before it, because what it means may depend on them: the first
// blank of a text, half a character.
std::string StreamDecoder::add(TokenId token) {
  const auto told = tokenizer_.decode(std::span(pending_).first(told_tokens_), true);
  pending_.push_back(token);
  const auto all = tokenizer_.decode(pending_, true);
  const bool whole = !all.ends_with(kReplacement) || pending_.size() - told_tokens_ >= kHeldMost;
  if (!whole || all.size() < told.size()) return {};
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(told_tokens_));
  told_tokens_ = pending_.size();
  return all.substr(told.size());
}

std::string StreamDecoder::finish() {
  const auto told = tokenizer_.decode(std::span(pending_).first(told_tokens_), true);
  const auto all = tokenizer_.decode(pending_, true);
  pending_.clear();
  told_tokens_ = 0;
  return all.size() > told.size() ? all.substr(told.size()) : std::string();
}

}  // namespace shoal::tokenizer
