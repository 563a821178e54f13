#include "tokenizer/corpus/documents.h"

#include <gmock/gmock.h>

#include "tokenizer/corpus/corpus_test_util.h"
#include "tokenizer/splitter.h"

namespace shoal::corpus {
namespace {

using testing::HasSubstr;

class Documents : public CorpusTest {
 protected:
  static std::vector<Piece> all(DocumentReader& reader) {
    std::vector<Piece> pieces;
    for (;;) {
      auto piece = reader.next();
      EXPECT_TRUE(piece.ok()) << to_string(piece.error());
      if (!piece.ok() || !*piece) return pieces;
      pieces.push_back(std::move(**piece));
    }
  }
  static Result<DocumentReader> open(DocumentOptions options) {
    return DocumentReader::open(std::move(options), tokenizer::cut_between_words);
  }
  static Error error_of(DocumentOptions options) {
    auto reader = open(std::move(options));
    if (!reader) return reader.error();
    for (;;) {
      auto piece = reader->next();
      if (!piece) return piece.error();
      if (!*piece) return {};
    }
  }
};

TEST_F(Documents, ALongTextComesInPieces) {
  std::string text;
  while (text.size() < 5 * kPieceBytes) text += "A line of the text, one of many.\n";
  auto reader = open({{write("a.txt", text), write("b.txt", "short")}, "", 0});
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->bytes_total(), static_cast<std::int64_t>(text.size()) + 5);
  const auto pieces = all(*reader);
  ASSERT_GT(pieces.size(), 5U);
  std::string together;
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].offset, static_cast<std::int64_t>(together.size()));
    EXPECT_LE(pieces[i].text.size(), kPieceBytes + 16);
    together += pieces[i].text;
    EXPECT_EQ(pieces[i].ends_document, together.size() == text.size());
  }
  EXPECT_EQ(together, text);
  EXPECT_EQ(pieces.back().text, "short");
  EXPECT_TRUE(pieces.back().ends_document);
}

TEST_F(Documents, LinesOfJsonAreDocuments) {
  const std::string file = write("a.jsonl", "{\"t\": \"one\"}\n\n{\"t\": \"two\\n\"}");
  auto reader = open({{file}, "t", 0});
  const auto pieces = all(*reader);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[1].line, 3);
  EXPECT_EQ(text_of_line(pieces[1].text, "t").value(), "two\n");
  EXPECT_EQ(place_of(pieces[1], {file}, 0), file + ":3: ");
  EXPECT_THAT(text_of_line("{\"x\": 1}", "t").error().message, HasSubstr("no string 't'"));
  EXPECT_THAT(text_of_line("{\"t\": 1}", "t").error().message, HasSubstr("no string 't'"));
  EXPECT_THAT(text_of_line("{\"t\"", "t").error().message, HasSubstr("not JSON"));
}

TEST_F(Documents, TheLimitOfBytesEndsAtALine) {
  const std::string file = write("a.txt", "One line.\nAnother line.\nA third.\n");
  auto reader = open({{file}, "", 30});
  const auto pieces = all(*reader);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].text, "One line.\nAnother line.\n");
  auto half = open({{write("b.txt", "\xC3\xA9\xC3\xA9")}, "", 3});
  EXPECT_EQ(all(*half).at(0).text, "\xC3\xA9");
}

TEST_F(Documents, WhatCannotBeReadIsRefusedAtOnce) {
  const std::string good = write("a.txt", "text");
  EXPECT_THAT(error_of({{good, (folder_ / "none").string()}, "", 0}).message, HasSubstr("none"));
  EXPECT_THAT(error_of({{write("empty.txt", "")}, "", 0}).message, HasSubstr("is empty"));
  EXPECT_THAT(error_of({{folder_.string()}, "", 0}).message, HasSubstr("not a regular file"));
  EXPECT_EQ(error_of({{write("a.jsonl", "{}")}, "", 0}).field, "--field");
  EXPECT_THAT(error_of({{}, "", 0}).message, HasSubstr("no files"));
}

TEST_F(Documents, AFileThatGrowsWhileItIsReadIsRefused) {
  const std::string file = write("a.txt", "text\nText\n");
  auto reader = open({{file}, "", 0});
  std::ofstream(file, std::ios::app) << "more";
  const auto piece = reader->next();
  ASSERT_FALSE(piece.ok());
  EXPECT_THAT(piece.error().message, HasSubstr("was changed while it was read"));
}

TEST_F(Documents, WhatCannotBeCutHasALimit) {
  const std::string file = write("a.txt", std::string(kWholeBytesMax + 100, 'x'));
  EXPECT_THAT(error_of({{file}, "", 0}).message, HasSubstr("of over 64 MiB"));
  EXPECT_THAT(error_of({{file}, "text", 0}).message, HasSubstr("a line of over 64 MiB"));
  std::string bytes(kWholeBytesMax + 100, 'x');
  bytes[7] = '\xFF';
  EXPECT_THAT(error_of({{write("b.txt", bytes)}, "", 0}).message,
              HasSubstr("byte 7: the text is not UTF-8"));
}

}  // namespace
}  // namespace shoal::corpus
