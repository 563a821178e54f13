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
  const auto pieces = all(*reader);
  EXPECT_EQ(reader->bytes_read(), static_cast<std::int64_t>(text.size()) + 5);
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
  EXPECT_EQ(pieces[1].text, "{\"t\": \"two\\n\"}");
  EXPECT_EQ(place_of(pieces[1], {file}, 0), file + ":3: ");
}

// As Windows writes them; blank lines before the first record are lines, too.
TEST_F(Documents, AByteOrderMarkAndLinesWithCarriageReturnsAreRead) {
  const std::string file =
      write("a.jsonl", "\xEF\xBB\xBF\r\n{\"t\": \"one\"}\r\n{\"t\": \"two\"}\r\n");
  auto reader = open({{file}, "t", 0});
  const auto pieces = all(*reader);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].line, 2);
  EXPECT_EQ(pieces[0].offset, 5);
  EXPECT_EQ(pieces[1].line, 3);
  auto text = open({{write("b.txt", "\xEF\xBB\xBFtext")}, "", 0});
  EXPECT_EQ(all(*text).at(0).text, "text");
}

TEST_F(Documents, TheElementsOfAnArrayAreDocuments) {
  const std::string file =
      write("a.json",
            "\n[{\"t\": \"one\"},\n {\n  \"t\": \"], \\\" [\"\n }\n,[1, [2]], 3.5 , \"x\",null]\n");
  auto reader = open({{file}, "t", 0});
  const auto pieces = all(*reader);
  std::vector<std::string> texts;
  for (const Piece& piece : pieces) {
    texts.push_back(piece.text);
    EXPECT_TRUE(piece.ends_document);
  }
  EXPECT_THAT(texts, testing::ElementsAre("{\"t\": \"one\"}", "{\n  \"t\": \"], \\\" [\"\n }",
                                          "[1, [2]]", "3.5", "\"x\"", "null"));
  EXPECT_EQ(place_of(pieces[1], {file}, 0), file + ", element 2 (line 3): ");
  EXPECT_EQ(place_of(pieces[2], {file}, 0), file + ", element 3 (line 6): ");
  auto none = open({{write("none.json", " [ ] ")}, "t", 0});
  EXPECT_TRUE(all(*none).empty());
}

// Elements that no buffer holds at once, and one that ends beyond the first buffer.
TEST_F(Documents, ALongArrayComesElementByElement) {
  const std::string element = "{\"t\": \"" + std::string(300'000, 'x') + "\"}";
  std::string array = "[" + element;
  for (int i = 1; i < 10; ++i) array += ",\n" + element;
  auto reader = open({{write("a.json", array + "]")}, "t", 0});
  const auto pieces = all(*reader);
  ASSERT_EQ(pieces.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pieces[static_cast<std::size_t>(i)].text, element);
    EXPECT_EQ(pieces[static_cast<std::size_t>(i)].line, i + 1);
  }
  auto half = open({{write("a.json", array + "]")}, "t", 1'000'000});
  EXPECT_EQ(all(*half).size(), 3U) << "of the beginning, whole ones";
}

TEST_F(Documents, WhatIsNoWholeArrayIsRefusedWithItsLine) {
  const auto refused = [&](const std::string& text) {
    const Error error = error_of({{write("a.json", text)}, "t", 0});
    EXPECT_EQ(error.code, Code::kValidation);
    return error.message.substr(error.message.find("a.json"));
  };
  EXPECT_EQ(refused("[{\"t\": 1},\n{\"t\""),
            "a.json:2: the array ends in the middle: element 2 is not whole");
  EXPECT_EQ(refused("[{}\n"), "a.json:2: the array ends in the middle: element 2 is not whole");
  EXPECT_EQ(refused("[{}\n{}]"), "a.json:2: no comma after element 1 of the array");
  EXPECT_EQ(refused("[{},]"), "a.json:1: no value before the next comma or bracket of the array");
  EXPECT_EQ(refused("[}"), "a.json:1: no value before the next comma or bracket of the array");
  EXPECT_EQ(refused("[{}]\n{}"), "a.json:2: more text after the end of the array");
  EXPECT_EQ(refused("["), "a.json:1: the array ends in the middle: element 1 is not whole");
}

// The half record is for the one who counts bad ones.
TEST_F(Documents, WhereBadLinesAreSkippedATruncatedArrayGivesWhatIsThere) {
  DocumentOptions options{{write("a.json", "[{\"t\": \"one\"},\n{\"t\": \"tw")}, "t", 0, true};
  auto reader = open(options);
  const auto pieces = all(*reader);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[1].text, "{\"t\": \"tw");
}

// "[0]" names the first element of a line that is an array.
TEST_F(Documents, LinesMayBeArrays) {
  auto reader = open({{write("a.jsonl", "[\"one\", 1]\n[\"two\", 2]\n")}, "[0]", 0});
  const auto pieces = all(*reader);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[1].text, "[\"two\", 2]\n");
}

TEST_F(Documents, CompressedFilesAreRead) {
  std::string text;
  while (text.size() < 3 * kPieceBytes) text += "A line of the text, one of many.\n";
  for (const std::string& packed : {gzip_of(text), zstd_of(text)}) {
    auto reader = open({{write("packed", packed)}, "", 0});
    ASSERT_TRUE(reader.ok()) << to_string(reader.error());
    std::string together;
    for (const Piece& piece : all(*reader)) together += piece.text;
    EXPECT_EQ(together, text);
    EXPECT_EQ(reader->bytes_read(), static_cast<std::int64_t>(packed.size()));
    auto beginning = open({{write("packed", packed)}, "", 100});
    EXPECT_EQ(all(*beginning).at(0).text, text.substr(0, 99)) << "three lines";
    const std::string half = packed.substr(0, packed.size() - 5);
    EXPECT_THAT(error_of({{write("half", half)}, "", 0}).message, HasSubstr("half is truncated"));
  }
  auto lines = open({{write("a.jsonl.gz", gzip_of("{\"t\": 1}\n{}\n"))}, "t", 0});
  EXPECT_EQ(all(*lines).size(), 2U);
}

TEST_F(Documents, WhatIsNoTextIsRefusedByItsFormat) {
  const auto refused = [&](const std::string& content) {
    return to_string(error_of({{write("a.jsonl", content)}, "t", 0}));
  };
  EXPECT_THAT(refused("PAR1\x15\x04 and so on PAR1"),
              testing::AllOf(HasSubstr("a.jsonl is a Parquet file"),
                             HasSubstr("python3 -m shoal.convert")));
  EXPECT_THAT(refused(gzip_of("PK\x03\x04 and so on")), HasSubstr("is a zip archive"));
  EXPECT_THAT(refused(std::string("\xFF\xFE{\0", 4)), HasSubstr("is UTF-16, not UTF-8"));
  EXPECT_THAT(refused(gzip_of("")), HasSubstr("is empty"));
  EXPECT_THAT(refused(zstd_of("")), HasSubstr("is empty"));
  EXPECT_THAT(refused("\xEF\xBB\xBF"), HasSubstr("is empty"));
  EXPECT_THAT(to_string(error_of({{write("a.csv", "t\none\n")}, "t", 0})),
              HasSubstr("a.csv holds a table"));
  EXPECT_EQ(error_of({{write("a.jsonl.zst", zstd_of("{}"))}, "", 0}).field, "--field");
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
  const std::string array = write("a.json", "[\"" + std::string(kWholeBytesMax + 100, 'x'));
  EXPECT_THAT(error_of({{array}, "text", 0}).message, HasSubstr("a record of over 64 MiB"));
  std::string bytes(kWholeBytesMax + 100, 'x');
  bytes[7] = '\xFF';
  EXPECT_THAT(error_of({{write("b.txt", bytes)}, "", 0}).message,
              HasSubstr("byte 7: the text is not UTF-8"));
}

}  // namespace
}  // namespace shoal::corpus
