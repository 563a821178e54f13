#include "tokenizer/bpe.h"

#include <limits>

#include <gmock/gmock.h>

#include "base/prng.h"

namespace shoal::tokenizer {
namespace {

using testing::ElementsAre;

// a b c ab bc abc, by their ids 0 to 5.
const TextMap<TokenId> kVocabulary = {{"a", 0},  {"b", 1},  {"c", 2},
                                      {"ab", 3}, {"bc", 4}, {"abc", 5}};

std::vector<TokenId> encode(const Bpe& bpe, std::string_view word) {
  std::vector<TokenId> out;
  BpeEncoder(bpe).encode(word, out);
  return out;
}

TEST(Bpe, TheLowestRankMergesFirst) {
  const Bpe ab_first(kVocabulary, {{0, 1, 3}, {1, 2, 4}, {3, 2, 5}}, {.of_bytes = true});
  EXPECT_THAT(encode(ab_first, "abc"), ElementsAre(5));
  EXPECT_THAT(encode(ab_first, "bcab"), ElementsAre(4, 3));
  const Bpe bc_first(kVocabulary, {{1, 2, 4}, {0, 1, 3}, {3, 2, 5}}, {.of_bytes = true});
  EXPECT_THAT(encode(bc_first, "abc"), ElementsAre(0, 4));  // a and bc have no merge
}

TEST(Bpe, AWholeWordMayComeBeforeItsMerges) {
  const Bpe bpe(kVocabulary, {{1, 2, 4}}, {.of_bytes = true, .ignore_merges = true});
  EXPECT_THAT(encode(bpe, "abc"), ElementsAre(5));
  EXPECT_THAT(encode(bpe, "abca"), ElementsAre(0, 4, 0));
}

TEST(Bpe, WhatIsNoTokenIsBytesOrUnknownOrNothing) {
  TextMap<TokenId> vocabulary = {{"a", 0}, {"<unk>", 1}, {"<0xC3>", 2}, {"<0xA9>", 3}};
  const BpeOptions falls_back{.byte_fallback = true, .fuse_unknown = true, .unknown = 1};
  EXPECT_THAT(encode(Bpe(vocabulary, {}, falls_back), "a\xC3\xA9z"), ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(encode(Bpe(vocabulary, {}, {.fuse_unknown = true, .unknown = 1}), "yza"),
              ElementsAre(1, 0));
  EXPECT_THAT(encode(Bpe(vocabulary, {}, {.unknown = 1}), "yza"), ElementsAre(1, 1, 0));
  EXPECT_THAT(encode(Bpe(vocabulary, {}, {}), "yza"), ElementsAre(0));
}

// The rule, word for word: the pair of lowest rank, the leftmost of equals.
std::vector<TokenId> by_the_rule(std::vector<TokenId> symbols,
                                 const std::vector<BpeMerge>& merges) {
  for (;;) {
    std::size_t best = merges.size(), where = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (merges[rank].left == symbols[i] && merges[rank].right == symbols[i + 1]) {
          best = rank, where = i;
        }
      }
    }
    if (best == merges.size()) return symbols;
    symbols[where] = merges[best].whole;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsKeepTheRule) {
  Prng prng(7);
  TextMap<TokenId> vocabulary = {{"a", 0}, {"b", 1}, {"c", 2}};
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<BpeMerge> merges;
  while (merges.size() < 40) {
    const auto left = static_cast<TokenId>(prng.below(tokens.size()));
    const auto right = static_cast<TokenId>(prng.below(tokens.size()));
    const std::string whole = tokens[left] + tokens[right];
    if (whole.size() > 8 || vocabulary.contains(whole)) continue;
    vocabulary[whole] = static_cast<TokenId>(tokens.size());
    merges.push_back({left, right, vocabulary[whole]});
    tokens.push_back(whole);
  }
  const Bpe bpe(vocabulary, merges, {.of_bytes = true});
  BpeEncoder encoder(bpe);
  for (int i = 0; i < 300; ++i) {
    std::string word;
    std::vector<TokenId> symbols;
    for (std::uint64_t n = 1 + prng.below(200); n > 0; --n) {
      symbols.push_back(static_cast<TokenId>(prng.below(3)));
      word += tokens[symbols.back()];
    }
    const auto expected = by_the_rule(symbols, merges);
    for (int again = 0; again < 2; ++again) {  // the second time from memory, if it is short
      std::vector<TokenId> out;
      encoder.encode(word, out);
      ASSERT_EQ(out, expected) << word;
    }
  }
}

}  // namespace
}  // namespace shoal::tokenizer
