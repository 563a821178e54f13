#include "tokenizer/splitter.h"

#include <gmock/gmock.h>

namespace shoal::tokenizer {
namespace {

using testing::ElementsAre;

std::vector<std::string> words(const std::vector<SplitStep>& steps, std::string_view text,
                               bool begins_text = true) {
  Splitter splitter(steps);
  std::vector<std::string> found;
  const Status done =
      splitter.split(text, begins_text, [&](std::string_view word) { found.emplace_back(word); });
  EXPECT_TRUE(done.ok());
  return found;
}

Split dash(SplitBehavior behavior, bool invert = false) {
  return {Pattern::literal("-").value(), behavior, invert};
}

// The library's documentation splits this text in these ways.
TEST(Splitter, EveryBehavior) {
  const char* text = "the-final--countdown";
  const auto with = [&](SplitBehavior behavior) { return words({dash(behavior)}, text); };
  EXPECT_THAT(with(SplitBehavior::kRemoved), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(with(SplitBehavior::kIsolated),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(with(SplitBehavior::kMergedWithPrevious),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(with(SplitBehavior::kMergedWithNext),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(with(SplitBehavior::kContiguous),
              ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(words({dash(SplitBehavior::kRemoved, true)}, text), ElementsAre("-", "-", "-"));
}

TEST(Splitter, Gpt2KeepsBlanksBeforeWords) {
  const std::vector<SplitStep> gpt2 = {Split{Pattern::compile(kGpt2Expression).value()}};
  EXPECT_THAT(words(gpt2, "Hello  world's 12!\n\nx"),
              ElementsAre("Hello", " ", " world", "'s", " 12", "!", "\n", "\n", "x"));
}

TEST(Splitter, StepsFollowEachOther) {
  EXPECT_THAT(words({dash(SplitBehavior::kRemoved), PrefixSpace{}}, "a- b"),
              ElementsAre(" a", " b"));
}

TEST(Splitter, MetaspaceMarksWhatTheSchemeSays) {
  const auto with = [](PrependScheme scheme, bool begins) {
    return words({Metaspace{"_", scheme}}, "a b", begins);
  };
  EXPECT_THAT(with(PrependScheme::kAlways, false), ElementsAre("_a_b"));
  EXPECT_THAT(with(PrependScheme::kFirst, true), ElementsAre("_a_b"));
  EXPECT_THAT(with(PrependScheme::kFirst, false), ElementsAre("a_b"));
  EXPECT_THAT(with(PrependScheme::kNever, true), ElementsAre("a_b"));
  EXPECT_THAT(words({Metaspace{"_", PrependScheme::kAlways}}, " a"), ElementsAre("_a"));
}

TEST(CutBetweenWords, IsWhereEveryPatternSplits) {
  EXPECT_EQ(cut_between_words("ab\ncd\nef", 8), 6U);
  EXPECT_EQ(cut_between_words("ab\ncd\nef", 5), 3U);
  EXPECT_EQ(cut_between_words("ab cd", 4), 2U);
  EXPECT_EQ(cut_between_words("\xC3\xA9 \xC3\xA9", 5), 2U);
  EXPECT_EQ(cut_between_words("ab\n cd\n1\n", 9), 0U);  // blanks and digits may join
  EXPECT_EQ(cut_between_words("ab\n\ncd", 6), 0U);      // GPT-2 takes the last line feed apart
  EXPECT_EQ(cut_between_words("ab\n\xFF", 4), 0U);
  EXPECT_EQ(cut_between_words("ab\n", 3), 0U);  // nobody knows what follows
}

}  // namespace
}  // namespace shoal::tokenizer
