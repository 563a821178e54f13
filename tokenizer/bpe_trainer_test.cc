#include "tokenizer/bpe_trainer.h"

#include <gmock/gmock.h>

#include "tokenizer/text_tokenizer.h"

namespace shoal::tokenizer {
namespace {

using testing::HasSubstr;

constexpr std::size_t kFirstMerged = 257;  // behind one special token and the bytes

// The example of Sennrich et al. 2016 (algorithm 1), without its sign for the end of a word.
const WordCounts kWords = {{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}};

TEST(TrainBpe, MergesTheMostFrequentPairFirst) {
  const auto trained = train_bpe(kWords, {.vocabulary = 257 + 6});
  ASSERT_TRUE(trained.ok());
  const std::vector<std::string> learned(trained->tokens.begin() + kFirstMerged,
                                         trained->tokens.end());
  // es and st stand there nine times each: e comes before s. lo and ow seven times.
  EXPECT_EQ(learned, (std::vector<std::string>{"es", "est", "lo", "low", "ew", "new"}));
  EXPECT_EQ(trained->tokens.front(), "<|endoftext|>");
}

TEST(TrainBpe, EndsWhereNothingIsFrequent) {
  const auto trained = train_bpe(kWords, {.vocabulary = 10'000, .min_frequency = 6});
  ASSERT_TRUE(trained.ok());
  EXPECT_LT(trained->tokens.size(), 280U);
  EXPECT_EQ(train_bpe({}, {.vocabulary = 1000})->tokens.size(), 257U);
}

TEST(TrainBpe, ARowOfOneLetter) {
  const auto trained = train_bpe({{"aaaaaaa", 3}}, {.vocabulary = 259});
  ASSERT_TRUE(trained.ok());
  EXPECT_EQ(trained->tokens[257], "aa");
  EXPECT_EQ(trained->tokens[258], "aaaa");
}

TEST(TrainBpe, ItsFileIsATokenizer) {
  const auto trained = train_bpe(kWords, {.vocabulary = 270});
  const auto tokenizer = parse_tokenizer(tokenizer_json(*trained), "trained");
  ASSERT_TRUE(tokenizer.ok()) << to_string(tokenizer.error());
  EXPECT_EQ((*tokenizer)->vocabulary(), static_cast<std::int64_t>(trained->tokens.size()));
  EXPECT_EQ((*tokenizer)->end_of_text(), TokenId{0});
  std::vector<TokenId> ids;
  ASSERT_TRUE((*tokenizer)->encoder()->encode("newest\xC3\xA9<|endoftext|>", ids).ok());
  EXPECT_EQ(ids.size(), 1U + 2U + 1U);
  EXPECT_EQ((*tokenizer)->decode(ids, false), "newest\xC3\xA9");
}

TEST(TrainBpe, RefusesWhatIsNoVocabulary) {
  EXPECT_THAT(train_bpe(kWords, {.vocabulary = 200}).error().message, HasSubstr("from 257"));
  EXPECT_EQ(train_bpe(kWords, {.vocabulary = 300, .special = {"a", "a"}}).error().field,
            "--special");
  EXPECT_FALSE(train_bpe(kWords, {.vocabulary = 300, .special = {""}}).ok());
  EXPECT_FALSE(train_bpe(kWords, {.vocabulary = 300, .special = {"\xFF"}}).ok());
}

}  // namespace
}  // namespace shoal::tokenizer
