// The text of a checkpoint: readable whatever bytes come, repeatable, and over in time.
#include "replica/runtime/sample_draft.h"

#include <gtest/gtest.h>

#include "messages/messages.h"

namespace shoal::replica {
namespace {

TEST(ReadableText, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(readable_text("a\r\n\tb~"), "a\r\n\tb~");
  EXPECT_EQ(readable_text("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x90\x9F"), "é€🐟");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(readable_text(std::string("\0\x1B\x7F", 3)), bad + bad + bad);
  EXPECT_EQ(readable_text("\xC3"), bad) << "cut off";
  EXPECT_EQ(readable_text("\xC3z"), bad + "z");
  EXPECT_EQ(readable_text("\xC0\x80"), bad + bad) << "too long";
  EXPECT_EQ(readable_text("\xE0\x80\x80"), bad + bad + bad) << "too long";
  EXPECT_EQ(readable_text("\xC1\xBF"), bad + bad) << "too long";
  EXPECT_EQ(readable_text("\xE0\x9F\xBF"), bad + bad + bad) << "too long";
  EXPECT_EQ(readable_text("\xF0\x8F\xBF\xBF"), bad + bad + bad + bad) << "too long";
  EXPECT_EQ(readable_text("\xF5\x80\x80\x80"), bad + bad + bad + bad) << "no lead";
  for (const char* edge : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(readable_text(edge), edge) << "the first or the last of its length";
  }
  EXPECT_EQ(readable_text("\xED\xA0\x80"), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(readable_text("\xF4\x90\x80\x80"), bad + bad + bad + bad) << "beyond U+10FFFF";
}

class SampleDraftTest : public testing::Test {
 protected:
  SampleDraft draft(RoundNumber round) { return {spec_, tokenizer_, prompt_, round, now_}; }

  JobSpec spec_;
  const tokenizer::TextTokenizer* tokenizer_ = nullptr;
  std::vector<std::int64_t> prompt_{1, 2, 3, 4, 5, 6, 7, 8};
  SampleDraft::Clock::time_point now_{};
};

TEST_F(SampleDraftTest, GoesOnFromThePrompt) {
  SampleDraft sample = draft(3);
  EXPECT_EQ(std::vector<std::int64_t>(sample.window().begin(), sample.window().end()), prompt_);
  std::vector<float> logits(256);
  logits['x'] = 100;
  sample.take(logits);
  EXPECT_EQ(sample.window().back(), 'x');
  EXPECT_EQ(sample.window().front(), prompt_[1]);
  EXPECT_EQ(sample.text(), "x");
}

// A word of 40 characters of two bytes for every token.
class LongWords : public tokenizer::TextTokenizer {
 public:
  std::string kind() const override { return "long words"; }
  std::int64_t vocabulary() const override { return 256; }
  std::unique_ptr<tokenizer::Encoder> encoder() const override { return nullptr; }
  std::string decode(std::span<const tokenizer::TokenId> tokens, bool) const override {
    std::string text = "x";  // so that the limit falls into a character
    for (std::size_t i = 0; i < 40 * tokens.size(); ++i) text += "é";
    return text;
  }
  std::optional<tokenizer::TokenId> id_of(std::string_view) const override { return std::nullopt; }
  std::string token_of(tokenizer::TokenId) const override { return ""; }
  std::optional<tokenizer::TokenId> end_of_text() const override { return std::nullopt; }
  std::size_t safe_cut(std::string_view, std::size_t) const override { return 0; }
};

TEST_F(SampleDraftTest, ATokenizerMakesItsTextOfAtMostTheLimit) {
  const LongWords words;
  tokenizer_ = &words;
  SampleDraft sample = draft(3);
  const std::vector<float> any(256);
  sample.take(any);
  EXPECT_EQ(sample.text().size(), 1U + 80);
  for (std::int64_t i = 1; i < SampleDraft::kTokens; ++i) sample.take(any);
  EXPECT_EQ(sample.text().size(), kSampleBytesMax - 1);
  EXPECT_EQ(readable_text(sample.text()), sample.text());
}

TEST_F(SampleDraftTest, NumbersAreNumbers) {
  spec_.data.tokenizer = Tokenizer::kUint16;
  SampleDraft sample = draft(3);
  std::vector<float> logits(256);
  logits[7] = 100;
  sample.take(logits);
  sample.take(logits);
  EXPECT_EQ(sample.text(), "7 7 ");
}

TEST_F(SampleDraftTest, WithoutAPromptItIsOver) {
  prompt_.clear();
  EXPECT_TRUE(draft(3).over(now_));
}

TEST_F(SampleDraftTest, IsSeededByTheRoundAndEnds) {
  const std::vector<float> any(256);
  SampleDraft one = draft(3), again = draft(3), other = draft(4);
  for (std::int64_t i = 0; i < SampleDraft::kTokens; ++i) {
    EXPECT_FALSE(one.over(now_));
    for (SampleDraft* sample : {&one, &again, &other}) sample->take(any);
  }
  EXPECT_TRUE(one.over(now_));
  EXPECT_EQ(one.text(), again.text());
  EXPECT_NE(one.text(), other.text());
  EXPECT_LE(one.text().size(), kSampleBytesMax);
}

TEST_F(SampleDraftTest, IsOverWhenItsTimeIsUp) {
  const SampleDraft sample = draft(1);
  EXPECT_FALSE(sample.over(now_ + SampleDraft::kLimit - std::chrono::milliseconds(1)));
  EXPECT_TRUE(sample.over(now_ + SampleDraft::kLimit));
  EXPECT_EQ(sample.text(), "");
}

}  // namespace
}  // namespace shoal::replica
