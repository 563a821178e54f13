// The ids of the Hugging Face library: scripts/tokenizer_goldens.py has made them with it.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "tokenizer/text_tokenizer.h"
#include "tokenizer/unicode_corpus_test_util.h"

namespace shoal::tokenizer {
namespace {

using Json = nlohmann::json;

std::string golden_path(const std::string& name) {
  return std::string(SHOAL_TOKENIZER_GOLDENS) + "/" + name;
}
Json read_json(const std::string& name) {
  std::ifstream file(golden_path(name));
  EXPECT_TRUE(file) << golden_path(name);
  return Json::parse(file);
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto content = read_tokenizer_file(golden_path(std::string(GetParam()) + ".json"));
    ASSERT_TRUE(content.ok()) << to_string(content.error());
    auto parsed = parse_tokenizer(*content, GetParam());
    ASSERT_TRUE(parsed.ok()) << to_string(parsed.error());
    tokenizer_ = std::move(*parsed);
    golden_ = read_json(std::string(GetParam()) + ".golden.json");
    encoder_ = tokenizer_->encoder();
  }

  std::vector<TokenId> encode(const std::string& text) {
    std::vector<TokenId> ids;
    const Status done = encoder_->encode(text, ids);
    EXPECT_TRUE(done.ok());
    return ids;
  }

  std::unique_ptr<TextTokenizer> tokenizer_;
  std::unique_ptr<Encoder> encoder_;
  Json golden_;
};

TEST_P(Golden, TextsHaveTheLibrarysIds) {
  const Json texts = read_json("texts.json");
  ASSERT_EQ(texts.size(), golden_.at("texts").size());
  ASSERT_GT(texts.size(), 40U);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Json& expected = golden_.at("texts").at(i);
    const auto ids = encode(texts.at(i).get<std::string>());
    EXPECT_EQ(ids, expected.at("ids").get<std::vector<TokenId>>()) << texts.at(i);
    EXPECT_EQ(tokenizer_->decode(ids, true), expected.at("decoded").get<std::string>());
    EXPECT_EQ(tokenizer_->decode(ids, false), expected.at("plain").get<std::string>());
  }
}

TEST_P(Golden, EveryCharacterOfUnicode14HasTheLibrarysIds) {
  const auto lines = unicode_corpus();
  std::istringstream digests(golden_.at("corpus").get<std::string>());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string expected, bytes;
    ASSERT_TRUE(digests >> expected) << "the golden has fewer lines";
    for (const TokenId id : encode(lines[i])) {
      for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift);
    }
    if (sha256_of(bytes).substr(0, 8) == expected) continue;
    if (++wrong <= 5) ADD_FAILURE() << "line " << i << ": " << lines[i].substr(0, 40);
  }
  EXPECT_EQ(wrong, 0U);
  std::string more;
  EXPECT_FALSE(digests >> more);
}

TEST_P(Golden, FrameAndVocabularyAreTheLibrarys) {
  auto ids = tokenizer_->frame().before;
  const auto inside = encode("a");
  ids.insert(ids.end(), inside.begin(), inside.end());
  ids.insert(ids.end(), tokenizer_->frame().after.begin(), tokenizer_->frame().after.end());
  EXPECT_EQ(ids, golden_.at("framed").get<std::vector<TokenId>>());
  EXPECT_EQ(tokenizer_->vocabulary(), golden_.at("vocabulary").get<std::int64_t>());
  EXPECT_TRUE(tokenizer_->end_of_text().has_value());
}

// Where it says that a text may be cut, cutting changes no id.
TEST_P(Golden, SafeCutsChangeNothing) {
  std::string text;
  for (const Json& one : read_json("texts.json")) text += one.get<std::string>() + "\nNext ";
  std::vector<TokenId> together;
  std::size_t cuts = 0;
  for (std::string_view rest = text; !rest.empty(); ++cuts) {
    const std::size_t at = tokenizer_->safe_cut(rest, 1000);
    const auto ids = encode(std::string(rest.substr(0, at == 0 ? rest.size() : at)));
    together.insert(together.end(), ids.begin(), ids.end());
    rest.remove_prefix(at == 0 ? rest.size() : at);
  }
  EXPECT_EQ(together, encode(text));
  const std::string name = GetParam();
  const bool cannot = name == "llama2" || name == "metaspace" || name == "gpt4o";
  EXPECT_EQ(cuts > 2, !cannot) << cuts;
}

TEST_P(Golden, InvalidUtf8IsRefusedWithItsPlace) {
  std::vector<TokenId> ids;
  const Status done = encoder_->encode("abc\xFF", ids);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::kValidation);
  EXPECT_NE(done.error().message.find("at byte 3"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, Golden,
                         testing::Values("gpt2", "llama3", "qwen2", "gpt4o", "llama2", "metaspace"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace shoal::tokenizer
