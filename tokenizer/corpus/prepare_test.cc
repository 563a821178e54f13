#include "tokenizer/corpus/prepare.h"

#include <cstring>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tokenizer/bpe_trainer.h"
#include "tokenizer/corpus/corpus_test_util.h"

namespace shoal::corpus {
namespace {

using testing::HasSubstr;
using tokenizer::TokenId;

class Prepare : public CorpusTest {
 protected:
  void SetUp() override {
    CorpusTest::SetUp();
    const auto trained = tokenizer::train_bpe({{" the", 9}, {"The", 5}}, {.vocabulary = 261});
    content_ = tokenizer::tokenizer_json(*trained);
    tokenizer_ = tokenizer::parse_tokenizer(content_, "test").value();
  }

  PrepareOptions options(std::vector<std::string> files, const std::string& output) const {
    PrepareOptions options;
    options.documents.files = std::move(files);
    options.output = (folder_ / output).string();
    options.threads = 2;
    return options;
  }
  Result<Prepared> run(const PrepareOptions& options) const {
    return prepare(options, {*tokenizer_, "tokenizer.json", content_});
  }
  std::vector<TokenId> encode(const std::string& text) const {
    std::vector<TokenId> ids;
    EXPECT_TRUE(tokenizer_->encoder()->encode(text, ids).ok());
    return ids;
  }
  static std::vector<TokenId> tokens(const std::string& bytes) {
    std::vector<std::uint16_t> narrow(bytes.size() / 2);
    std::memcpy(narrow.data(), bytes.data(), bytes.size());
    return {narrow.begin(), narrow.end()};
  }
  // Nothing but the folder itself.
  void expect_nothing_left(const std::string& output) const {
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / output));
  }

  std::string content_;
  std::unique_ptr<tokenizer::TextTokenizer> tokenizer_;
};

TEST_F(Prepare, ADocumentEndsWithItsToken) {
  const auto done = run(options({write("a.txt", "The end"), write("b.txt", "x the")}, "out"));
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  auto expected = encode("The end");
  expected.push_back(0);
  for (const TokenId id : encode("x the")) expected.push_back(id);
  expected.push_back(0);
  EXPECT_EQ(tokens(read(folder_ / "out/shard_00000.bin")), expected);
  EXPECT_EQ(done->documents, 2);
  EXPECT_EQ(done->tokens, static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(done->text_bytes, 12);
  EXPECT_EQ(read(folder_ / "out/tokenizer.json"), content_);
}

TEST_F(Prepare, TheDescriptionNamesEveryShard) {
  PrepareOptions small =
      options({write("a.jsonl", "{\"t\":\"abcdefgh\"}\n{\"t\":\"ij\"}\n")}, "out");
  small.documents.field = "t";
  small.shard_bytes = 8;
  const auto done = run(small);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  const auto json = nlohmann::json::parse(read(folder_ / "out/dataset.json"));
  EXPECT_EQ(json.at("tokens"), "uint16");
  EXPECT_EQ(json.at("documents"), 2);
  EXPECT_EQ(json.at("token_count"), 12);
  EXPECT_EQ(json.at("end_of_text"), 0);
  EXPECT_EQ(json.at("tokenizer").at("sha256"), sha256_of(content_));
  ASSERT_EQ(json.at("shards").size(), 3U);
  std::string all;
  for (const auto& shard : json.at("shards")) {
    const std::string bytes = read(folder_ / "out" / shard.at("file").get<std::string>());
    EXPECT_EQ(shard.at("sha256"), sha256_of(bytes));
    EXPECT_EQ(shard.at("tokens"), bytes.size() / 2);
    all += bytes;
  }
  EXPECT_EQ(tokenizer_->decode(tokens(all), false), "abcdefghij");
}

TEST_F(Prepare, ThreadsAndPiecesChangeNothing) {
  std::string text;
  for (int i = 0; text.size() < 4 * kPieceBytes; ++i) {
    text += "The line " + std::to_string(i) + " of the text\n";
  }
  const std::string file = write("a.txt", text);
  PrepareOptions one = options({file}, "one"), five = options({file}, "five");
  one.threads = 1, five.threads = 5;
  ASSERT_TRUE(run(one).ok());
  ASSERT_TRUE(run(five).ok());
  const std::string bytes = read(folder_ / "one/shard_00000.bin");
  EXPECT_EQ(bytes, read(folder_ / "five/shard_00000.bin"));
  auto expected = encode(text);
  expected.push_back(0);
  EXPECT_EQ(tokens(bytes), expected);
}

TEST_F(Prepare, BadTextIsNamedAndNothingStays) {
  const auto text = run(options({write("a.txt", "fine"), write("b.txt", "no\xFF")}, "text"));
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.error().message, HasSubstr("b.txt, byte 2: the text is not UTF-8"));
  expect_nothing_left("text");
  PrepareOptions lines = options({write("a.jsonl", "{\"t\":\"x\"}\n{\"u\":1}\n")}, "lines");
  lines.documents.field = "t";
  const auto bad = run(lines);
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("a.jsonl:2: the record has no string 't'"));
  expect_nothing_left("lines");
}

TEST_F(Prepare, BadRecordsAreSkippedAndCountedOnRequest) {
  const std::string good = "{\"t\": \"ab\", \"score\": NaN}\n", bad = "{\"t\": null}\n";
  PrepareOptions lines = options({write("a.jsonl", good + bad + good + "{\"t\"\n"),
                                  write("b.json", "[{\"t\": \"cd\"}, {\"t\": \"cut")},
                                 "out");
  lines.documents.field = "t";
  EXPECT_FALSE(run(lines).ok());
  lines.documents.skip_bad = true;
  const auto done = run(lines);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->documents, 3);
  EXPECT_EQ(done->skipped.records, 3);
  EXPECT_THAT(done->skipped.first,
              HasSubstr("a.jsonl:2: the record has no string 't': it is null"));
  EXPECT_EQ(tokenizer_->decode(tokens(read(folder_ / "out/shard_00000.bin")), false), "ababcd");
  EXPECT_EQ(nlohmann::json::parse(read(folder_ / "out/dataset.json")).at("skipped"), 3);
}

TEST_F(Prepare, FilesWithoutADocumentAreRefused) {
  PrepareOptions lines = options({write("a.jsonl", "{}\n[]\n")}, "out");
  lines.documents.field = "t";
  lines.documents.skip_bad = true;
  const auto done = run(lines);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message,
              testing::AllOf(HasSubstr("no document: all 2 records were left out"),
                             HasSubstr("a.jsonl:1: the record has no string 't'")));
  expect_nothing_left("out");
}

TEST_F(Prepare, CompressedFilesGiveTheSameShards) {
  const std::string lines = "{\"t\": \"The end\"}\n{\"t\": \"x the\"}\n";
  PrepareOptions plain = options({write("a.jsonl", lines)}, "plain"),
                 packed = options({write("a.jsonl.gz", gzip_of(lines))}, "packed");
  plain.documents.field = packed.documents.field = "t";
  ASSERT_TRUE(run(plain).ok());
  const auto done = run(packed);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(read(folder_ / "plain/shard_00000.bin"), read(folder_ / "packed/shard_00000.bin"));
}

TEST_F(Prepare, RefusesAnotherFolderAndAnotherToken) {
  const std::string file = write("a.txt", "text");
  EXPECT_EQ(run(options({file}, "")).error().code, Code::kConflict);
  PrepareOptions named = options({file}, "out");
  named.end_of_text = "<nobody>";
  EXPECT_EQ(run(named).error().field, "--end-of-text");
}

}  // namespace
}  // namespace shoal::corpus
