#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include "tokenizer/byte_alphabet.h"

namespace shoal::tokenizer {
namespace {

constexpr std::string_view kSign = "\xEF\xBF\xBD";

TEST(Utf8, EveryCodePointIsItself) {
  for (char32_t c = 0; c < 0x110000; c += 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    EXPECT_EQ(find_invalid_utf8(text), std::string::npos) << static_cast<unsigned>(c);
    EXPECT_EQ(sequence_at(text, 0).length, text.size());
    EXPECT_EQ(code_point_at(text, 0), c);
  }
}

TEST(Utf8, TheFirstWrongByteIsNamed) {
  const std::string good = "0123456789abcdef";  // longer than a word of the fast way
  for (const std::string bad :
       {"\x80", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFF", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_EQ(find_invalid_utf8(good + bad), good.size());
    EXPECT_EQ(find_invalid_utf8("\xC3\xA4" + bad + good), 2U);
  }
}

// The examples of Unicode 15, section 3.9.
TEST(Utf8, OneSignStandsForTheLongestBeginning) {
  const std::string sign(kSign);
  EXPECT_EQ(with_replacements("a\xF1\x80\x80\xE1\x80\xC2"
                              "b\x80"
                              "c\x80\xBF"
                              "d"),
            "a" + sign + sign + sign + "b" + sign + "c" + sign + sign + "d");
  EXPECT_EQ(with_replacements("\xE2\x82"), sign);
  EXPECT_EQ(with_replacements("\xE2\x82\xAC"), "\xE2\x82\xAC");
}

TEST(ByteAlphabet, AllBytesComeBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(bytes_of_characters(characters_of_bytes(bytes)), bytes);
  EXPECT_EQ(characters_of_bytes(" a\n"),
            "\xC4\xA0"
            "a\xC4\x8A");                               // Ġ and Ċ, as GPT-2 writes them
  EXPECT_EQ(bytes_of_characters("a b"), std::nullopt);  // a blank stands for nothing
  EXPECT_EQ(bytes_of_characters("\xE2\x96\x81"), std::nullopt);
}

}  // namespace
}  // namespace shoal::tokenizer
