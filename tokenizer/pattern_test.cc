#include "tokenizer/pattern.h"

#include <gmock/gmock.h>

namespace shoal::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> matches(std::string_view expression, const std::string& text) {
  const auto pattern = Pattern::compile(expression);
  if (!pattern) return {"refused: " + pattern.error().message};
  Matcher matcher(*pattern);
  matcher.start(text);
  std::vector<std::string> found;
  for (Match match; matcher.next(match);) {
    found.push_back(text.substr(match.begin, match.end - match.begin));
  }
  EXPECT_TRUE(matcher.verdict().ok());
  return found;
}

TEST(Pattern, ReadsPropertiesOfUnicode) {
  EXPECT_THAT(matches("\\p{L}+", "ab 1 \xC3\xA9\xD0\xB6"), ElementsAre("ab", "\xC3\xA9\xD0\xB6"));
  EXPECT_THAT(matches("\\p{Han}", "a\xE6\xBC\xA2"), ElementsAre("\xE6\xBC\xA2"));
  EXPECT_THAT(matches("[^\\s\\p{L}]", "a 1\xE2\x80\x83"), ElementsAre("1"));
}

// Oniguruma takes U+180E for no white space, PCRE2's own \s does.
TEST(Pattern, WhiteSpaceIsThatOfUnicode) {
  EXPECT_THAT(matches("\\s", "\xE1\xA0\x8E"), ElementsAre());
  EXPECT_THAT(matches("\\s", "\xC2\x85"), ElementsAre("\xC2\x85"));
  EXPECT_THAT(matches("\\S", "\xC2\x85 x"), ElementsAre("x"));
}

TEST(Pattern, EmptyMatchesAreTakenOnce) {
  EXPECT_THAT(matches("b*", "abc"), ElementsAre("", "b", ""));
  EXPECT_THAT(matches("x?", "\xC3\xA9"), ElementsAre("", ""));
}

TEST(Pattern, RefusesWhatTheOtherLibraryReadsDifferently) {
  for (const char* expression :
       {"^a", "a$", "\\h", "\\Aa", "a{1,2}+", "[[:alpha:]]", "[a&&b]", "(?m)a", "(?<name>a)",
        "(*ACCEPT)a", "(?R)", "(a)\\1", "a(?#c)", "", "a\\"}) {
    EXPECT_FALSE(Pattern::compile(expression).ok()) << expression;
  }
  EXPECT_THAT(Pattern::compile("\\p{Klingon}").error().message, HasSubstr("propert"));
}

TEST(Pattern, ALiteralIsNoPattern) {
  Matcher matcher(Pattern::literal("a.b").value());
  const std::string text = "axb a.b";
  matcher.start(text);
  Match match;
  ASSERT_TRUE(matcher.next(match));
  EXPECT_EQ(match.begin, 4U);
  EXPECT_FALSE(matcher.next(match));
}

TEST(Pattern, GivesUpInsteadOfGoingOnForEver) {
  const auto pattern = Pattern::compile("(a+)+b");
  Matcher matcher(*pattern);
  const std::string text = std::string(60, 'a') + "cb";
  matcher.start(text);
  Match match;
  while (matcher.next(match)) continue;
  ASSERT_FALSE(matcher.verdict().ok());
  EXPECT_EQ(matcher.verdict().error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace shoal::tokenizer
