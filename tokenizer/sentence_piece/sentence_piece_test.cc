// tests/golden/tokenizer/sentence_piece.model was made by spm_train (Debian's package
// sentencepiece, of the page README.md, 400 pieces, byte fallback), the ids by spm_encode.
#include "tokenizer/sentence_piece/sentence_piece.h"

#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace shoal::tokenizer {
namespace {

using testing::HasSubstr;

std::string golden(const char* name) { return std::string(SHOAL_TOKENIZER_GOLDENS) + "/" + name; }

TEST(SentencePiece, HasTheLibrarysIds) {
  const auto model = load_any_tokenizer(golden("sentence_piece.model"));
  ASSERT_TRUE(model.ok()) << to_string(model.error());
  EXPECT_EQ((*model)->kind(), "SentencePiece");
  EXPECT_EQ((*model)->vocabulary(), 400);
  EXPECT_EQ((*model)->end_of_text(), (*model)->id_of("</s>"));
  EXPECT_EQ((*model)->frame().before.size(), 1U);
  std::ifstream file(golden("sentence_piece.golden.json"));
  const auto encoder = (*model)->encoder();
  const auto expected = nlohmann::json::parse(file);
  EXPECT_GT(expected.size(), 5U);
  for (const auto& [text, ids] : expected.items()) {
    std::vector<TokenId> found;
    ASSERT_TRUE(encoder->encode(text, found).ok());
    EXPECT_EQ(found, ids.get<std::vector<TokenId>>()) << text;
    EXPECT_EQ((*model)->decode(found, false), text);
  }
}

TEST(SentencePiece, KindsAreToldByTheirContent) {
  EXPECT_EQ((*load_any_tokenizer("bytes"))->kind(), "bytes");
  EXPECT_EQ((*load_any_tokenizer(golden("gpt2.json")))->kind(), "byte-level BPE");
  EXPECT_THAT(parse_any_tokenizer("nonsense", "x").error().message,
              HasSubstr("x: is neither a tokenizer.json nor"));
  EXPECT_THAT(parse_any_tokenizer("", "x").error().message, HasSubstr("x: the file is empty"));
}

TEST(SentencePiece, InvalidUtf8IsRefused) {
  const auto model = load_any_tokenizer(golden("sentence_piece.model"));
  std::vector<TokenId> ids;
  EXPECT_THAT((*model)->encoder()->encode("ab\xFF", ids).error().message, HasSubstr("at byte 2"));
}

}  // namespace
}  // namespace shoal::tokenizer
