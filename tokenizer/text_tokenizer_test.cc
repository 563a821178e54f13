#include "tokenizer/text_tokenizer.h"

#include <gmock/gmock.h>

namespace shoal::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ByteTokenizer, BytesAreTokens) {
  const auto bytes = byte_tokenizer();
  std::vector<TokenId> ids;
  ASSERT_TRUE(bytes->encoder()->encode("a\xC3\xA9", ids).ok());
  EXPECT_THAT(ids, ElementsAre(97, 0xC3, 0xA9));
  EXPECT_EQ(bytes->decode(ids, true), "a\xC3\xA9");
  EXPECT_EQ(bytes->vocabulary(), 256);
  EXPECT_EQ(bytes->end_of_text(), std::nullopt);
}

TEST(ParseTokenizer, SaysWhichFileIsNone) {
  EXPECT_THAT(parse_tokenizer("", "x.json").error().message,
              HasSubstr("x.json: the file is empty"));
  EXPECT_THAT(parse_tokenizer("\x0A\x05", "x.model").error().message,
              HasSubstr("x.model: is not a tokenizer.json"));
  EXPECT_THAT(parse_tokenizer("{\"model\": 1}", "x.json").error().message,
              HasSubstr("x.json: model"));
  EXPECT_EQ(read_tokenizer_file("/nowhere/tokenizer.json").error().code, Code::kNotFound);
}

TEST(StreamDecoder, TellsWholeCharacters) {
  const auto bytes = byte_tokenizer();
  StreamDecoder stream(*bytes);
  EXPECT_EQ(stream.add('a'), "a");
  EXPECT_EQ(stream.add(0xC3), "");
  EXPECT_EQ(stream.add(0xA9), "\xC3\xA9");
  EXPECT_EQ(stream.add('b'), "b");
  EXPECT_EQ(stream.add(0xF0), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, DoesNotWaitForEver) {
  const auto bytes = byte_tokenizer();
  StreamDecoder stream(*bytes);
  std::string text;
  for (int i = 0; i < 40; ++i) text += stream.add(0x80);
  EXPECT_GE(text.size(), 3U * 16);
  text += stream.finish();
  EXPECT_EQ(text.size(), 3U * 40);
}

}  // namespace
}  // namespace shoal::tokenizer
