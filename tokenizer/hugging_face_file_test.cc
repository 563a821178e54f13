#include "tokenizer/hugging_face_file.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace shoal::tokenizer {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

Json good() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 3, "content": "<e>", "special": true, "normalized": false}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<e>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<e>": {"id": "<e>", "ids": [3], "tokens": ["<e>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
}

TEST(HuggingFaceFile, IsReadIntoItsParts) {
  const auto parts = parse_hugging_face(good().dump());
  ASSERT_TRUE(parts.ok()) << to_string(parts.error());
  EXPECT_TRUE(parts->bpe.of_bytes);
  EXPECT_EQ(parts->tokens, (std::vector<std::string>{"a", "b", "ab", "<e>"}));
  ASSERT_EQ(parts->merges.size(), 1U);
  EXPECT_EQ(parts->merges[0].whole, 2U);
  EXPECT_EQ(parts->frame.before, std::vector<TokenId>{3});
  EXPECT_TRUE(parts->frame.after.empty());
}

TEST(HuggingFaceFile, MergesMayBePairs) {
  Json json = good();
  json["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  const auto parts = parse_hugging_face(json.dump());
  ASSERT_TRUE(parts.ok()) << to_string(parts.error());
  EXPECT_EQ(parts->merges.size(), 1U);
}

struct Refusal {
  const char* pointer;
  Json value;
  const char* says;
  Code code = Code::kIncompatible;
};

TEST(HuggingFaceFile, WhatIsNotKnownIsRefusedByItsPlace) {
  const Refusal refusals[] = {
      {"/model/type", "Unigram", "model: the model 'Unigram' is not supported"},
      {"/model/dropout", 0.1, "model.dropout: a value is not supported"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
      {"/model/unk_token", "<unk>", "'<unk>' is not in model.vocab", Code::kInvalidArgument},
      {"/model/merges/0", "b c", "model.merges[0]: 'c' is not in", Code::kInvalidArgument},
      {"/model/merges/0", "b a", "'ba' is not in model.vocab", Code::kInvalidArgument},
      {"/model/merges/0", "ab", "two tokens", Code::kInvalidArgument},
      {"/model/vocab/a", 1, "have the same id 1", Code::kInvalidArgument},
      {"/model/vocab/a", -1, "integer from 0", Code::kInvalidArgument},
      {"/model/vocab/a", 99'999'999, "integer from 0", Code::kInvalidArgument},
      {"/model/vocab", Json::object(), "is empty", Code::kInvalidArgument},
      {"/model", nullptr, "model: is missing", Code::kInvalidArgument},
      {"/normalizer/type", "BertNormalizer", "normalizer: the normalizer 'BertNormalizer'"},
      {"/pre_tokenizer/type", "Whitespace", "the pre-tokenizer 'Whitespace'"},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}},
       "pre_tokenizer.pretokenizers[1]: a component after ByteLevel"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "^a"}}}, {"behavior", "Isolated"}},
       "pre_tokenizer.pattern: the pattern (^ is not supported"},
      {"/post_processor/type", "BertProcessing", "the post-processor 'BertProcessing'"},
      {"/post_processor/special_tokens/<e>/ids/0", 4, "integer from 0 to 3",
       Code::kInvalidArgument},
      {"/decoder/type", "WordPiece", "the decoder 'WordPiece'"},
      {"/added_tokens/0/single_word", true, "added_tokens[0].single_word"},
      {"/added_tokens/0/id", 1, "'b' and '<e>' have the same id", Code::kInvalidArgument},
      {"/added_tokens", "x", "added_tokens: must be an array", Code::kInvalidArgument},
  };
  for (const Refusal& refusal : refusals) {
    Json json = good();
    json[Json::json_pointer(refusal.pointer)] = refusal.value;
    const auto parts = parse_hugging_face(json.dump());
    ASSERT_FALSE(parts.ok()) << refusal.pointer;
    EXPECT_THAT(parts.error().message, HasSubstr(refusal.says));
    EXPECT_EQ(parts.error().code, refusal.code) << refusal.says;
    EXPECT_NE(parts.error().remedy, "");
  }
}

TEST(HuggingFaceFile, SequencesInSequencesEnd) {
  const auto refused = [](int sequences) {
    Json json = good(), nested = {{"type", "NFC"}};
    for (int i = 0; i < sequences; ++i) nested = {{"type", "Sequence"}, {"normalizers", {nested}}};
    json["normalizer"] = nested;
    return parse_hugging_face(json.dump()).error().message;
  };
  EXPECT_THAT(refused(20), HasSubstr("too many Sequences"));
  EXPECT_THAT(refused(2000), HasSubstr("nested deeper"));
}

TEST(HuggingFaceFile, ACutFileIsNoFile) {
  const std::string text = good().dump();
  for (std::size_t size = 0; size < text.size(); size += 11) {
    EXPECT_FALSE(parse_hugging_face(text.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace shoal::tokenizer
