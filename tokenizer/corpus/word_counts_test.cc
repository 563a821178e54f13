#include "tokenizer/corpus/word_counts.h"

#include <gmock/gmock.h>

#include "tokenizer/corpus/corpus_test_util.h"

namespace shoal::corpus {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class CountWords : public CorpusTest {};

TEST_F(CountWords, OfTextAndOfJsonLines) {
  const auto text = count_words({{write("a.txt", "a b a")}, "", 0}, 2);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, UnorderedElementsAre(Pair("a", 1), Pair(" b", 1), Pair(" a", 1)));
  const auto lines =
      count_words({{write("a.jsonl", "{\"t\":\"x x\"}\n{\"t\":\"x\"}\n")}, "t", 0}, 2);
  ASSERT_TRUE(lines.ok());
  EXPECT_THAT(*lines, UnorderedElementsAre(Pair("x", 2), Pair(" x", 1)));
}

TEST_F(CountWords, SkipsAndCountsBadRecordsOnRequest) {
  DocumentOptions documents{{write("a.jsonl", "{\"t\":\"x\"}\noops\n{\"t\":\"x\"}\n")}, "t", 0};
  EXPECT_THAT(count_words(documents, 2).error().message,
              HasSubstr("a.jsonl:2: the record is not JSON"));
  documents.skip_bad = true;
  Skipped skipped;
  const auto words = count_words(documents, 2, {}, &skipped);
  ASSERT_TRUE(words.ok());
  EXPECT_THAT(*words, UnorderedElementsAre(Pair("x", 2)));
  EXPECT_EQ(skipped.records, 1);
  EXPECT_THAT(skipped.first, HasSubstr("a.jsonl:2: the record is not JSON"));
}

TEST_F(CountWords, ThreadsChangeNothing) {
  std::string text;
  for (int i = 0; text.size() < 3 * kPieceBytes; ++i) text += "Word " + std::to_string(i) + "\n";
  const std::string file = write("a.txt", text);
  EXPECT_EQ(count_words({{file}, "", 0}, 1).value(), count_words({{file}, "", 0}, 5).value());
}

TEST_F(CountWords, APlaceThatIsNotUtf8IsNamed) {
  const std::string file = write("a.txt", "good\n\xFF");
  EXPECT_THAT(count_words({{file}, "", 0}, 1).error().message,
              HasSubstr("a.txt, byte 5: the text is not UTF-8"));
}

}  // namespace
}  // namespace shoal::corpus
