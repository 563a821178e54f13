// See hugging_face_file.h.
#include "tokenizer/hugging_face_file.h"

#include <algorithm>
#include <array>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_node.h"
#include "tokenizer/python_json.h"
#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

constexpr int kDepthMost = 8;  // of Sequences in Sequences

// A Sequence's items, or the component alone; none for null.
std::vector<JsonNode> components(const JsonNode& node, const char* list, int depth = 0) {
  if (node.is_null()) return {};
  if (node.type() != "Sequence") return {node};
  if (depth == kDepthMost) node.malformed("too many Sequences in Sequences");
  std::vector<JsonNode> all;
  for (const JsonNode& item : node.at(list).items()) {
    for (const JsonNode& inner : components(item, list, depth + 1)) all.push_back(inner);
  }
  return all;
}

template <typename E>
E word_at(const JsonNode& node, const char* key) {
  const std::string text = node.text_at(key);
  for (const auto& [word, name] : kEnumerators<E>) {
    if (text == name) return word;
  }
  node.at(key).malformed("'" + text + "' is not known");
}

Pattern pattern_of(const JsonNode& node) {
  const JsonNode regex = node.at("Regex");
  const auto pattern =
      regex.is_null() ? Pattern::literal(node.text_at("String")) : Pattern::compile(regex.text());
  if (!pattern) node.unsupported("the pattern (" + pattern.error().message + ")", "others");
  return *pattern;
}

// ---- normalizer

NormalizerStep normalizer_step(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "NFC") return UnicodeForm::kNfc;
  if (type == "NFD") return UnicodeForm::kNfd;
  if (type == "NFKC") return UnicodeForm::kNfkc;
  if (type == "NFKD") return UnicodeForm::kNfkd;
  if (type == "Prepend") return Prepend{node.text_at("prepend")};
  if (type == "Replace") return Replace{pattern_of(node.at("pattern")), node.text_at("content")};
  node.unsupported("the normalizer '" + type + "'",
                   "NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence");
}

// ---- pre-tokenizer

Metaspace metaspace_of(const JsonNode& node) {
  Metaspace metaspace{node.text_at("replacement"), PrependScheme::kAlways};
  if (!node.at("prepend_scheme").is_null()) {
    metaspace.scheme = word_at<PrependScheme>(node, "prepend_scheme");
  } else if (!node.flag("add_prefix_space", true)) {
    metaspace.scheme = PrependScheme::kNever;
  }
  return metaspace;
}

Pattern known_pattern(std::string_view expression) { return Pattern::compile(expression).value(); }

void add_byte_level(const JsonNode& node, std::vector<SplitStep>& steps) {
  if (node.flag("add_prefix_space", true)) steps.emplace_back(PrefixSpace{});
  if (node.flag("use_regex", true)) steps.emplace_back(Split{known_pattern(kGpt2Expression)});
}

void add_metaspace(const JsonNode& node, std::vector<SplitStep>& steps) {
  const Metaspace metaspace = metaspace_of(node);
  steps.emplace_back(metaspace);
  if (!node.flag("split", true)) return;
  auto mark = Pattern::literal(metaspace.replacement);
  if (!mark) node.at("replacement").malformed(mark.error().message);
  steps.emplace_back(Split{*mark, SplitBehavior::kMergedWithNext});
}

void read_splitter(const JsonNode& root, HuggingFaceParts& parts) {
  for (const JsonNode& node : components(root, "pretokenizers")) {
    const std::string type = node.type();
    if (parts.bpe.of_bytes) node.unsupported("a component after ByteLevel", "ByteLevel at the end");
    if (type == "ByteLevel") {
      parts.bpe.of_bytes = true;
      add_byte_level(node, parts.splitter);
    } else if (type == "Split") {
      parts.splitter.emplace_back(Split{pattern_of(node.at("pattern")),
                                        word_at<SplitBehavior>(node, "behavior"),
                                        node.flag("invert", false)});
    } else if (type == "Digits") {
      const bool alone = node.flag("individual_digits", false);
      parts.splitter.emplace_back(Split{
          known_pattern("\\p{N}"), alone ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
    } else if (type == "Metaspace") {
      add_metaspace(node, parts.splitter);
    } else {
      node.unsupported("the pre-tokenizer '" + type + "'",
                       "ByteLevel, Split, Digits, Metaspace and Sequence");
    }
  }
}

// ---- model

void name_token(std::size_t id, const std::string& token, const JsonNode& node,
                HuggingFaceParts& parts) {
  if (id >= parts.tokens.size()) parts.tokens.resize(id + 1);
  std::string& place = parts.tokens[id];
  if (!place.empty() && place != token) {
    node.malformed("'" + place + "' and '" + token + "' have the same id " + std::to_string(id));
  }
  place = token;
}

TextMap<TokenId> read_vocabulary(const JsonNode& node, HuggingFaceParts& parts) {
  if (!node.value().is_object()) node.malformed("must be an object");
  TextMap<TokenId> ids;
  for (const auto& [token, id] : node.value().items()) {
    const auto number = JsonNode(id, "model.vocab").integer(0, kVocabularyMax - 1);
    if (token.empty()) node.malformed("an empty token");
    name_token(static_cast<std::size_t>(number), token, node, parts);
    ids.emplace(token, static_cast<TokenId>(number));
  }
  if (ids.empty()) node.malformed("is empty");
  return ids;
}

struct Halves {
  std::string left, right;
};
Halves halves_of(const JsonNode& node) {
  if (node.value().is_array()) {
    const auto items = node.items();
    if (items.size() != 2) node.malformed("must be two tokens");
    return {items[0].text(), items[1].text()};
  }
  const std::string text = node.text();
  const auto blank = text.find(' ');
  if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
    node.malformed("must be two tokens with a blank between them");
  }
  return {text.substr(0, blank), text.substr(blank + 1)};
}

void read_merges(const JsonNode& node, const TextMap<TokenId>& ids, HuggingFaceParts& parts) {
  for (const JsonNode& item : node.items()) {
    const auto [left, right] = halves_of(item);
    const auto id_of = [&](const std::string& token) {
      const auto it = ids.find(token);
      if (it == ids.end()) item.malformed("'" + token + "' is not in model.vocab");
      return it->second;
    };
    parts.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
}

void read_model(const JsonNode& node, HuggingFaceParts& parts) {
  const std::string type = node.at("type").is_null() ? "BPE" : node.type();
  if (type != "BPE") node.unsupported("the model '" + type + "'", "BPE");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    node.must_be_unset(key);
  }
  const TextMap<TokenId> ids = read_vocabulary(node.at("vocab"), parts);
  read_merges(node.at("merges"), ids, parts);
  parts.bpe.ignore_merges = node.flag("ignore_merges", false);
  parts.bpe.fuse_unknown = node.flag("fuse_unk", false);
  parts.bpe.byte_fallback = node.flag("byte_fallback", false);
  if (const JsonNode unknown = node.at("unk_token"); !unknown.is_null()) {
    const auto it = ids.find(unknown.text());
    if (it == ids.end()) unknown.malformed("'" + unknown.text() + "' is not in model.vocab");
    parts.bpe.unknown = it->second;
  }
  if (!parts.bpe.of_bytes) {
    parts.vocabulary = ids;
    return;
  }
  if (parts.bpe.byte_fallback) node.unsupported("byte_fallback beside ByteLevel", "one of them");
  for (const auto& [token, id] : ids) {
    if (auto bytes = bytes_of_characters(token)) parts.vocabulary.emplace(*bytes, id);
  }
}

// ---- what is added

void read_added(const JsonNode& root, HuggingFaceParts& parts) {
  if (root.is_null()) return;
  for (const JsonNode& node : root.items()) {
    AddedToken token;
    token.content = node.text_at("content");
    token.id = static_cast<TokenId>(node.at("id").integer(0, kVocabularyMax - 1));
    token.left_strip = node.flag("lstrip", false);
    token.right_strip = node.flag("rstrip", false);
    token.special = node.flag("special", false);
    token.normalized = node.flag("normalized", !token.special);
    if (token.content.empty()) node.malformed("an empty token");
    if (node.flag("single_word", false)) {
      node.at("single_word").unsupported("a token of whole words", "added tokens without it");
    }
    name_token(token.id, token.content, node, parts);
    parts.added.push_back(std::move(token));
  }
}

void check_added(const JsonNode& root, const HuggingFaceParts& parts) {
  std::vector<std::string> contents;
  for (const AddedToken& token : parts.added) contents.push_back(token.content);
  std::sort(contents.begin(), contents.end());
  const auto twice = std::adjacent_find(contents.begin(), contents.end());
  if (twice != contents.end()) root.malformed("'" + *twice + "' is there twice");
}

void add_template(const JsonNode& node, HuggingFaceParts& parts) {
  const auto last = static_cast<std::int64_t>(parts.tokens.size()) - 1;
  bool after = false;
  for (const JsonNode& piece : node.at("single").items()) {
    if (!piece.at("Sequence").is_null()) {
      if (after) piece.unsupported("a second text in the template", "templates with one");
      after = true;
      continue;
    }
    const std::string name = piece.at("SpecialToken").text_at("id");
    for (const JsonNode& id : node.at("special_tokens").at(name.c_str()).at("ids").items()) {
      const auto token = static_cast<TokenId>(id.integer(0, last));
      (after ? parts.frame.after : parts.frame.before).push_back(token);
    }
  }
}

void read_frame(const JsonNode& root, HuggingFaceParts& parts) {
  for (const JsonNode& node : components(root, "processors")) {
    const std::string type = node.type();
    if (type == "ByteLevel") continue;  // changes offsets only
    if (type != "TemplateProcessing") {
      node.unsupported("the post-processor '" + type + "'",
                       "ByteLevel, TemplateProcessing and Sequence");
    }
    add_template(node, parts);
  }
}

DecodeStep decode_step(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "ByteLevel") return DecodeByteLevel{};
  if (type == "ByteFallback") return DecodeByteFallback{};
  if (type == "Fuse") return DecodeFuse{};
  if (type == "Metaspace") return DecodeMetaspace{metaspace_of(node)};
  if (type == "Replace") {
    return DecodeReplace{node.at("pattern").text_at("String"), node.text_at("content")};
  }
  if (type == "Strip") {
    const auto count = [&](const char* key) {
      return static_cast<std::size_t>(node.at(key).integer(0, 1 << 20));
    };
    const std::string content = node.text_at("content");
    if (content.empty()) node.malformed("an empty content");
    return DecodeStrip{content, count("start"), count("stop")};
  }
  node.unsupported("the decoder '" + type + "'",
                   "ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence");
}

HuggingFaceParts read_parts(const JsonNode& root) {
  HuggingFaceParts parts;
  if (root.at("model").is_null()) root.at("model").malformed("is missing");
  for (const JsonNode& node : components(root.at("normalizer"), "normalizers")) {
    parts.normalizer.push_back(normalizer_step(node));
  }
  read_splitter(root.at("pre_tokenizer"), parts);
  read_model(root.at("model"), parts);
  read_added(root.at("added_tokens"), parts);
  check_added(root.at("added_tokens"), parts);
  read_frame(root.at("post_processor"), parts);
  for (const JsonNode& node : components(root.at("decoder"), "decoders")) {
    parts.decoder.push_back(decode_step(node));
  }
  return parts;
}

}  // namespace

Result<HuggingFaceParts> parse_hugging_face(std::string_view json) {
  if (Status s = check_json_depth(json); !s) return s.error();
  try {
    const auto value = nlohmann::json::parse(json);
    return read_parts(JsonNode(value, ""));
  } catch (const JsonRefusal& refusal) {
    return refusal.error;
  } catch (const nlohmann::json::parse_error& e) {
    return Error{Code::kInvalidArgument, "is not JSON at byte " + std::to_string(e.byte), "",
                 "take another copy of the file"};
  }
}

}  // namespace shoal::tokenizer
