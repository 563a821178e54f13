#include "job/data_rules.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

using testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Ten tokens of which two are held out: one window of four to train on at every phase.
constexpr DataNeeds kSmall{Tokenizer::kBytes, 4, 100, 0.2};

TEST(DataRules, AFileNeedsAWindowOfTrainingAndOneOfValidation) {
  EXPECT_EQ(split_of(kSmall, 25).held_out, 5);
  EXPECT_TRUE(check_data_size(kSmall, 25, "/x").ok());
  const Status none_to_validate = check_data_size(kSmall, 24, "/x");
  ASSERT_FALSE(none_to_validate.ok());
  EXPECT_EQ(none_to_validate.error().code, Code::kNotFound);
  EXPECT_EQ(none_to_validate.error().field, "data.train");
  EXPECT_THAT(none_to_validate.error().message,
              HasSubstr("/x is too short: 24 tokens, of which 4 are held out"));
  EXPECT_FALSE(check_data_size({Tokenizer::kBytes, 4, 100, 0.9}, 70, "/x").ok())
      << "seven tokens to train on";
}

TEST(DataRules, ATokenOfTwoBytesTakesTwiceTheFile) {
  const DataNeeds wide{Tokenizer::kUint16, 4, 100, 0.2};
  EXPECT_TRUE(check_data_size(wide, 50, "/x").ok());
  EXPECT_FALSE(check_data_size(wide, 49, "/x").ok());
}

TEST(DataRules, TheFirstTokenThatTheModelDoesNotHaveIsNamed) {
  EXPECT_TRUE(check_data_tokens(kSmall, bytes_of({0, 99, 50}), 0, "/x").ok());
  const Status bad = check_data_tokens(kSmall, bytes_of({0, 100, 101}), 7, "/x");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, Code::kValidation);
  EXPECT_EQ(bad.error().message, "/x: the token at position 8 is not below model.vocab (100)");
}

TEST(DataRules, TokensOfTwoBytesAreLittleEndianAndHalfOneIsNotLookedAt) {
  const DataNeeds wide{Tokenizer::kUint16, 4, 300, 0.2};
  EXPECT_TRUE(check_data_tokens(wide, bytes_of({43, 1, 255}), 0, "/x").ok());
  const Status bad = check_data_tokens(wide, bytes_of({43, 1, 44, 1}), 0, "/x");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("position 1 is not below model.vocab"));
}

TEST(DataRules, TokensOfFourBytesReachBeyondTwo) {
  const DataNeeds wide{Tokenizer::kUint32, 4, 128'256, 0.2};
  EXPECT_TRUE(check_data_tokens(wide, bytes_of({255, 244, 1, 0}), 0, "/x").ok());
  const Status bad = check_data_tokens(wide, bytes_of({0, 0, 0, 0, 0, 245, 1, 0}), 0, "/x");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("position 1 is not below model.vocab (128256)"));
  EXPECT_EQ(token_at(bytes_of({255, 255, 255, 255}), Tokenizer::kUint32, 0), 4'294'967'295);
}

TEST(DataRules, ADatasetHasANameAndPerhapsTheHashOfItsManifest) {
  const std::string hash(64, 'a');
  EXPECT_EQ(parse_dataset("books-2.1"), (DatasetRef{"books-2.1", ""}));
  EXPECT_EQ(parse_dataset("books@" + hash), (DatasetRef{"books", hash}));
  EXPECT_EQ(to_string(DatasetRef{"books", hash}), "books@" + hash);
  for (const std::string& wrong : {std::string(), std::string("Books"), std::string(".x"),
                                   std::string("a/b"), std::string(64, 'a'), std::string("books@"),
                                   "books@" + hash + "a", "books@" + std::string(64, 'A')}) {
    EXPECT_FALSE(parse_dataset(wrong)) << wrong;
  }
}

TEST(DataRules, AJobNeedsItsManifestsAndItsCode) {
  const std::string books(64, 'a'), code(64, 'b');
  JobSpec spec;
  spec.data.mixture = {{"books@" + books, 1}, {"unresolved", 1}};
  spec.trainer.code = "sha256:" + code;
  EXPECT_EQ(uploads_of(spec), (std::vector<std::string>{books, code}));
  spec.data = {.train = "/x"};
  spec.trainer.code.clear();
  EXPECT_TRUE(uploads_of(spec).empty());
}

TEST(DataRules, APathMayNameARoot) {
  const auto parts = [](std::string_view text) {
    const DataPath path = parse_data_path(text);
    return std::pair(std::string(path.root), std::string(path.path));
  };
  EXPECT_EQ(parts("texts:a/b.txt"), std::pair(std::string("texts"), std::string("a/b.txt")));
  EXPECT_EQ(parts("texts:a:b"), std::pair(std::string("texts"), std::string("a:b")));
  for (const char* whole : {"/srv/a:b", "a/b:c", "./a:b", ":a", "Texts:a", "a b:c", "plain"}) {
    EXPECT_EQ(parts(whole), std::pair(std::string(), std::string(whole)));
  }
}

}  // namespace
}  // namespace shoal
