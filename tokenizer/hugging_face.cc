// See hugging_face.h.
#include "tokenizer/hugging_face.h"

#include <algorithm>

#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

// Usual names of the token between documents, that of a base model first.
constexpr std::string_view kEndsOfText[] = {"<|endoftext|>",
                                            "<|end_of_text|>",
                                            "</s>",
                                            "<eos>",
                                            "<|im_end|>",
                                            "<\xEF\xBD\x9C"
                                            "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

std::vector<AddedToken> added_of(const std::vector<AddedToken>& all, bool normalized) {
  std::vector<AddedToken> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return some;
}

class HuggingFaceTokenizer : public TextTokenizer {
 public:
  explicit HuggingFaceTokenizer(HuggingFaceParts parts);

  std::string kind() const override {
    return bpe_options_.of_bytes ? "byte-level BPE" : "BPE of characters";
  }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::unique_ptr<Encoder> encoder() const override;
  std::string decode(std::span<const TokenId> tokens, bool with_special) const override;
  std::optional<TokenId> id_of(std::string_view token) const override {
    const auto it = ids_.find(token);
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }
  std::string token_of(TokenId id) const override {
    return id < tokens_.size() ? tokens_[id] : std::string();
  }
  std::optional<TokenId> end_of_text() const override;
  std::size_t safe_cut(std::string_view text, std::size_t most) const override;

 private:
  friend class HuggingFaceEncoder;
  std::vector<AddedToken> normalized_added(const std::vector<AddedToken>& all) const;

  std::vector<NormalizerStep> normalizer_;
  std::vector<SplitStep> splitter_;
  std::vector<DecodeStep> decoder_;
  BpeOptions bpe_options_;
  Bpe bpe_;
  AddedTokenFinder raw_, normalized_;
  std::vector<std::string> tokens_;
  TextMap<TokenId> ids_;
  std::vector<bool> special_;  // by id
};

class HuggingFaceEncoder : public Encoder {
 public:
  explicit HuggingFaceEncoder(const HuggingFaceTokenizer& tokenizer)
      : tokenizer_(tokenizer),
        normalizer_(tokenizer.normalizer_),
        splitter_(tokenizer.splitter_),
        bpe_(tokenizer.bpe_) {}

  Status encode(std::string_view text, std::vector<TokenId>& out) override {
    if (const auto at = find_invalid_utf8(text); at != std::string_view::npos) {
      return Error{Code::kValidation, "the text is not UTF-8 at byte " + std::to_string(at), "",
                   "convert it to UTF-8, for example with iconv"};
    }
    out_ = &out;
    tokenizer_.raw_.cut(text, raw_);
    for (const Segment& segment : raw_) {
      const std::string_view piece = text.substr(segment.begin, segment.end - segment.begin);
      Status done = segment.token ? add(*segment.token) : encode_piece(piece, segment.begin == 0);
      if (!done) return done;
    }
    return {};
  }

 private:
  Status add(TokenId token) { return out_->push_back(token), Status(); }

  Status encode_piece(std::string_view raw, bool begins_text) {
    const auto text = normalizer_.apply(raw);
    if (!text) return text.error();
    tokenizer_.normalized_.cut(*text, normalized_);
    for (const Segment& segment : normalized_) {
      const std::string_view piece = text->substr(segment.begin, segment.end - segment.begin);
      const bool first = begins_text && segment.begin == 0;
      Status done = segment.token ? add(*segment.token) : splitter_.split(piece, first, sink_);
      if (!done) return done;
    }
    return {};
  }

  const HuggingFaceTokenizer& tokenizer_;
  Normalizer normalizer_;
  Splitter splitter_;
  BpeEncoder bpe_;
  std::vector<Segment> raw_, normalized_;
  std::vector<TokenId>* out_ = nullptr;
  const Splitter::Sink sink_ = [this](std::string_view word) { bpe_.encode(word, *out_); };
};

HuggingFaceTokenizer::HuggingFaceTokenizer(HuggingFaceParts parts)
    : normalizer_(std::move(parts.normalizer)),
      splitter_(std::move(parts.splitter)),
      decoder_(std::move(parts.decoder)),
      bpe_options_(parts.bpe),
      bpe_(std::move(parts.vocabulary), parts.merges, parts.bpe),
      raw_(added_of(parts.added, false)),
      normalized_(normalized_added(parts.added)),
      tokens_(std::move(parts.tokens)),
      special_(tokens_.size(), false) {
  frame_ = std::move(parts.frame);
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty()) ids_.emplace(tokens_[id], static_cast<TokenId>(id));
  }
  for (const AddedToken& token : parts.added) special_[token.id] = token.special;
}

// Such a token is looked for in a normalized text, so it is normalized itself.
std::vector<AddedToken> HuggingFaceTokenizer::normalized_added(
    const std::vector<AddedToken>& all) const {
  std::vector<AddedToken> some = added_of(all, true);
  Normalizer normalizer(normalizer_);
  for (AddedToken& token : some) {
    if (const auto text = normalizer.apply(token.content)) token.content = std::string(*text);
  }
  return some;
}

std::unique_ptr<Encoder> HuggingFaceTokenizer::encoder() const {
  return std::make_unique<HuggingFaceEncoder>(*this);
}

std::string HuggingFaceTokenizer::decode(std::span<const TokenId> tokens, bool with_special) const {
  std::vector<std::string> words;
  for (const TokenId id : tokens) {
    if (id >= tokens_.size() || tokens_[id].empty() || (special_[id] && !with_special)) continue;
    words.push_back(tokens_[id]);
  }
  return decode_tokens(decoder_, std::move(words));
}

std::optional<TokenId> HuggingFaceTokenizer::end_of_text() const {
  for (const std::string_view name : kEndsOfText) {
    if (const auto id = id_of(name)) return id;
  }
  return std::nullopt;
}

// Where pieces begin with a mark (Metaspace, Prepend) there is no such place.
std::size_t HuggingFaceTokenizer::safe_cut(std::string_view text, std::size_t most) const {
  const auto is_split = [](const SplitStep& step) { return std::holds_alternative<Split>(step); };
  const bool splits = !splitter_.empty() && bpe_options_.of_bytes &&
                      std::all_of(splitter_.begin(), splitter_.end(), is_split);
  return splits ? cut_between_words(text, most) : 0;
}

}  // namespace

std::unique_ptr<TextTokenizer> hugging_face_tokenizer(HuggingFaceParts parts) {
  return std::make_unique<HuggingFaceTokenizer>(std::move(parts));
}

}  // namespace shoal::tokenizer
