// Text to tokens and back. A tokenizer is read from one file and never changes. Here are bytes, and
// the tokenizer.json of the Hugging Face libraries: byte-level BPE (GPT-2, Llama 3, Qwen 2) and BPE
// with bytes to fall back on (Llama 2). sentence_piece/ reads models of SentencePiece.
//
// The ids are those of the library that the file belongs to. A file with a component that is not
// known is refused with the component's name: it would give other ids in silence.
//
// A tokenizer may be used by any thread; an Encoder and a StreamDecoder belong to one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shoal::tokenizer {

using TokenId = std::uint32_t;

inline constexpr std::size_t kFileBytesMax = 256 << 20;
inline constexpr std::int64_t kVocabularyMax = 1 << 22;

class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the tokens of `text`, without those of TextTokenizer::frame(). kValidation: not UTF-8,
  // with the offset; kResourceExhausted: a pattern of the tokenizer takes too many steps.
  virtual Status encode(std::string_view text, std::vector<TokenId>& out) = 0;
};

// The tokens that belong before and after every text, such as the BOS of Llama.
struct Frame {
  std::vector<TokenId> before, after;
};

class TextTokenizer {
 public:
  virtual ~TextTokenizer() = default;

  virtual std::string kind() const = 0;                  // for people: "byte-level BPE"
  virtual std::int64_t vocabulary() const = 0;           // every id is below it
  virtual std::unique_ptr<Encoder> encoder() const = 0;  // must not outlive this
  // The text in UTF-8; an incomplete character becomes U+FFFD, and an unknown id is left out.
  virtual std::string decode(std::span<const TokenId> tokens, bool with_special) const = 0;

  virtual std::optional<TokenId> id_of(std::string_view token) const = 0;
  virtual std::string token_of(TokenId id) const = 0;  // as the file writes it; empty: none
  // The token between two documents; none: the file names no such token.
  virtual std::optional<TokenId> end_of_text() const = 0;
  const Frame& frame() const { return frame_; }

  // The largest n <= most such that the tokens of text[0, n) and of the rest, one after the other,
  // are the tokens of `text`; 0: none is known. For texts that are too long for one piece.
  virtual std::size_t safe_cut(std::string_view text, std::size_t most) const = 0;

 protected:
  Frame frame_;
};

std::unique_ptr<TextTokenizer> byte_tokenizer();

// `content` of a tokenizer.json, which messages call `name`. kIncompatible: a component that is not
// known; kInvalidArgument: no tokenizer.json.
Result<std::unique_ptr<TextTokenizer>> parse_tokenizer(std::string_view content,
                                                       const std::string& name);

// kNotFound: no such file; kResourceExhausted: over kFileBytesMax.
Result<std::string> read_tokenizer_file(const std::string& path);

// Text as tokens come, in whole characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(const TextTokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string add(TokenId token);  // what can be told now; may be empty
  std::string finish();            // what was held back

 private:
  const TextTokenizer& tokenizer_;
  std::vector<TokenId> pending_;  // some that were told, so that the next are decoded after them
  std::size_t told_tokens_ = 0;   // of pending_
};

}  // namespace shoal::tokenizer
