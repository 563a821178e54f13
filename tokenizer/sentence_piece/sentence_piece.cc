// See sentence_piece.h.
#include "tokenizer/sentence_piece/sentence_piece.h"

#include <sentencepiece_processor.h>

#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

class SentencePieceEncoder : public Encoder {
 public:
  explicit SentencePieceEncoder(const Processor& processor) : processor_(processor) {}

  Status encode(std::string_view text, std::vector<TokenId>& out) override {
    if (const auto at = find_invalid_utf8(text); at != std::string_view::npos) {
      return Error{Code::kValidation, "the text is not UTF-8 at byte " + std::to_string(at), "",
                   "convert it to UTF-8, for example with iconv"};
    }
    const auto status = processor_.Encode({text.data(), text.size()}, &ids_);
    if (!status.ok()) {
      return Error{Code::kValidation, "SentencePiece cannot encode the text: " + status.ToString(),
                   "", ""};
    }
    for (const int id : ids_) out.push_back(static_cast<TokenId>(id));
    return {};
  }

 private:
  const Processor& processor_;
  std::vector<int> ids_;
};

class SentencePieceTokenizer : public TextTokenizer {
 public:
  explicit SentencePieceTokenizer(std::unique_ptr<Processor> processor)
      : processor_(std::move(processor)) {
    if (processor_->bos_id() >= 0) {
      frame_.before.push_back(static_cast<TokenId>(processor_->bos_id()));
    }
  }

  std::string kind() const override { return "SentencePiece"; }
  std::int64_t vocabulary() const override { return processor_->GetPieceSize(); }
  std::unique_ptr<Encoder> encoder() const override {
    return std::make_unique<SentencePieceEncoder>(*processor_);
  }
  std::string decode(std::span<const TokenId> tokens, bool with_special) const override {
    std::vector<int> ids;
    for (const TokenId token : tokens) {
      if (token >= vocabulary()) continue;
      const int id = static_cast<int>(token);
      if (!with_special && processor_->IsControl(id)) continue;
      ids.push_back(id);
    }
    std::string text;
    if (!processor_->Decode(ids, &text).ok()) return {};
    return with_replacements(text);
  }
  std::optional<TokenId> id_of(std::string_view token) const override {
    const int id = processor_->PieceToId({token.data(), token.size()});
    if (processor_->IdToPiece(id) != token) return std::nullopt;
    return static_cast<TokenId>(id);
  }
  std::string token_of(TokenId id) const override {
    return id < vocabulary() ? processor_->IdToPiece(static_cast<int>(id)) : std::string();
  }
  std::optional<TokenId> end_of_text() const override {
    if (processor_->eos_id() < 0) return std::nullopt;
    return static_cast<TokenId>(processor_->eos_id());
  }
  std::size_t safe_cut(std::string_view, std::size_t) const override { return 0; }

 private:
  std::unique_ptr<Processor> processor_;
};

}  // namespace

Result<std::unique_ptr<TextTokenizer>> sentence_piece_tokenizer(std::string_view content) {
  auto processor = std::make_unique<Processor>();
  const auto status = processor->LoadFromSerializedProto({content.data(), content.size()});
  if (!status.ok() || processor->GetPieceSize() <= 0) {
    return Error{Code::kInvalidArgument, "is neither a tokenizer.json nor a SentencePiece model",
                 "", "name a tokenizer.json, or a tokenizer.model of SentencePiece"};
  }
  return std::unique_ptr<TextTokenizer>(
      std::make_unique<SentencePieceTokenizer>(std::move(processor)));
}

Result<std::unique_ptr<TextTokenizer>> parse_any_tokenizer(std::string_view content,
                                                           const std::string& name) {
  const auto first = content.find_first_not_of(" \t\r\n");
  const bool json = first == std::string_view::npos || content[first] == '{';
  if (json) return parse_tokenizer(content, name);
  auto model = sentence_piece_tokenizer(content);
  if (model) return model;
  Error error = model.error();
  error.message = name + ": " + error.message;
  return error;
}

Result<std::unique_ptr<TextTokenizer>> load_any_tokenizer(const std::string& path) {
  if (path == "bytes") return byte_tokenizer();
  const auto content = read_tokenizer_file(path);
  if (!content) return content.error();
  return parse_any_tokenizer(*content, path);
}

}  // namespace shoal::tokenizer
