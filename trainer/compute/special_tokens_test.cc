#include "trainer/compute/special_tokens.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Files = std::map<std::string, std::string>;

Result<SpecialTokens> read(const Files& files, std::int64_t vocabulary = 100) {
  const auto text = [&](const std::string& name, std::uint64_t) -> Result<std::string> {
    const auto it = files.find(name);
    if (it != files.end()) return it->second;
    return Error{Code::kNotFound, name + " is missing", "", ""};
  };
  return special_tokens_of(text, "folder", vocabulary);
}
SpecialTokens found(const Files& files) {
  const auto tokens = read(files);
  EXPECT_TRUE(tokens.ok()) << to_string(tokens.error());
  return tokens.ok() ? *tokens : SpecialTokens();
}

TEST(SpecialTokens, GenerationConfigGoesBeforeConfig) {
  const SpecialTokens tokens =
      found({{"config.json", R"({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})"},
             {"generation_config.json", R"({"eos_token_id": [2, 7, 2]})"}});
  EXPECT_THAT(tokens.eos, ElementsAre(2, 7));
  EXPECT_EQ(tokens.bos, 1);
  EXPECT_EQ(tokens.pad, 0);
}

TEST(SpecialTokens, OfATokenizerAreThoseThatItsConfigurationNames) {
  const Files files = {
      {"config.json", R"({"eos_token_id": null, "limit": Infinity})"},
      {"tokenizer_config.json",
       R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<none>",
           "model_max_length": 1000000000000000019884624838656})"},
      {"tokenizer.json", R"({"added_tokens": [{"id": 9, "content": "</s>"}, 5],
                             "model": {"vocab": {"<s>": 8}}})"}};
  const SpecialTokens tokens = found(files);
  EXPECT_THAT(tokens.eos, ElementsAre(9));
  EXPECT_EQ(tokens.bos, 8);
  EXPECT_EQ(tokens.pad, std::nullopt);
}

TEST(SpecialTokens, IdsThatNoTokenHasAreLeftOut) {
  EXPECT_THAT(found({{"config.json", R"({"eos_token_id": 50256})"}}).eos, IsEmpty());
  EXPECT_THAT(
      found({{"config.json", R"({"eos_token_id": [-1, 99, 100, 18446744073709551615]})"}}).eos,
      ElementsAre(99));
  EXPECT_THAT(found({{"config.json", R"({"eos_token_id": NaN, "bos_token_id": "x"})"}}).eos,
              IsEmpty());
}

TEST(SpecialTokens, OfAFolderWithoutFilesAreNone) { EXPECT_EQ(found({}), SpecialTokens()); }

TEST(SpecialTokens, AFileThatIsNotJsonIsNamed) {
  const auto refused = [](const Files& files) {
    const auto tokens = read(files);
    EXPECT_FALSE(tokens.ok());
    return tokens.ok() ? "" : tokens.error().message;
  };
  EXPECT_EQ(refused({{"generation_config.json", "{\n!"}}),
            "folder/generation_config.json is not JSON at line 2");
  EXPECT_THAT(refused({{"config.json", "[]"}}), HasSubstr("folder/config.json holds no object"));
}

TEST(SpecialTokens, TheTokenizerOfTheDataAddsItsEnd) {
  const auto tokenizer =
      tokenizer::parse_tokenizer(R"({"added_tokens": [{"id": 1, "content": "</s>"}],
                                     "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})",
                                 "test");
  ASSERT_TRUE(tokenizer.ok()) << to_string(tokenizer.error());
  SpecialTokens tokens{.eos = {7}};
  add_tokens_of(**tokenizer, tokens);
  add_tokens_of(**tokenizer, tokens);
  EXPECT_THAT(tokens.eos, ElementsAre(7, 1));
  EXPECT_EQ(tokens.bos, std::nullopt) << "no frame begins with one";
  add_tokens_of(*tokenizer::byte_tokenizer(), tokens);
  EXPECT_THAT(tokens.eos, ElementsAre(7, 1));
}

}  // namespace
}  // namespace shoal::trainer
