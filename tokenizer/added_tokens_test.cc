#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

namespace shoal::tokenizer {
namespace {

// "[x]" for text, "7" for a token.
std::string shown(const AddedTokenFinder& finder, const std::string& text) {
  std::vector<Segment> segments;
  finder.cut(text, segments);
  std::string out;
  std::size_t at = 0;
  for (const Segment& one : segments) {
    EXPECT_EQ(one.begin, at);
    at = one.end;
    out += one.token ? std::to_string(*one.token)
                     : "[" + text.substr(one.begin, one.end - one.begin) + "]";
  }
  EXPECT_EQ(at, text.size());
  return out;
}

AddedToken token(const char* content, TokenId id) { return {.content = content, .id = id}; }

TEST(AddedTokens, TheLongestOfSeveralCounts) {
  const AddedTokenFinder finder({token("<a>", 1), token("<a><b>", 2), token("<", 3)});
  EXPECT_EQ(shown(finder, "x<a>y"), "[x]1[y]");
  EXPECT_EQ(shown(finder, "<a><b><a><"), "213");
  EXPECT_EQ(shown(finder, "<a"), "3[a]");
  EXPECT_EQ(shown(finder, ""), "");
  EXPECT_EQ(shown(AddedTokenFinder({}), "<a>"), "[<a>]");
}

TEST(AddedTokens, AmongHundredsTheRightOneIsFound) {
  std::vector<AddedToken> tokens;
  for (TokenId i = 0; i < 300; ++i) {
    tokens.push_back({.content = "<|reserved_" + std::to_string(i) + "|>", .id = i});
  }
  EXPECT_EQ(shown(AddedTokenFinder(tokens), "<|reserved_29|><|reserved_299|><|reserved_300|>"),
            "29299[<|reserved_300|>]");
}

TEST(AddedTokens, WhiteSpaceGoesWithThoseThatStripIt) {
  AddedToken mask = token("<m>", 5);
  mask.left_strip = mask.right_strip = true;
  const AddedTokenFinder finder({mask, token("<e>", 6)});
  EXPECT_EQ(shown(finder, "a \xE2\x80\x83<m>\n b"), "[a]5[b]");
  EXPECT_EQ(shown(finder, "a <e> b"), "[a ]6[ b]");
  EXPECT_EQ(shown(finder, "<e> <m>"), "65");
}

}  // namespace
}  // namespace shoal::tokenizer
