#include "trainer/compute/job_tokenizer.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/compute/checkpoint.h"
#include "trainer/model/tiny_job_test_util.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class JobTokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    spec_.model.vocab = 702;
    spec_.data.tokenizer = Tokenizer::kUint16;
    spec_.data.tokenizer_file = std::string(SHOAL_GOLDEN_DIR) + "/tokenizer/qwen2.json";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }
  Error refused() {
    const auto opened = open_job_tokenizer(spec_, data::DataRoots::whole_host());
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{} : opened.error();
  }

  fs::path folder_ = fs::path(testing::TempDir()) / "job_tokenizer";
  JobSpec spec_ = tiny_job(SyncAlgorithm::kDiloco, 2, Steps(30));
};

TEST_F(JobTokenizerTest, IsReadBeneathTheRoots) {
  const auto opened = open_job_tokenizer(spec_, data::DataRoots::whole_host());
  ASSERT_TRUE(opened.ok()) << to_string(opened.error());
  EXPECT_EQ((*opened)->tokenizer->vocabulary(), 702);
  EXPECT_EQ((*opened)->content.size(), fs::file_size(spec_.data.tokenizer_file));
  const auto none = open_job_tokenizer(spec_, data::DataRoots());
  EXPECT_EQ(none.error().field, "data.tokenizer_file");
  spec_.data.tokenizer_file = "";
  EXPECT_EQ(*open_job_tokenizer(spec_, data::DataRoots()), nullptr);
}

TEST_F(JobTokenizerTest, IsTheDatasetsUnlessTheJobNamesAFile) {
  const std::string hash(64, 'a');
  data::Manifest manifest{Tokenizer::kUint16, data::kChunkBytesMin, {{"a.bin", 2, hash, hash}}};
  manifest.tokenizer = hash;
  const std::string kept = (*open_job_tokenizer(spec_, data::DataRoots::whole_host()))->content;
  const auto read = [&](const std::string&, std::int64_t shard, std::int64_t) {
    return Result<std::string>(shard == data::kManifestText ? data::to_text(manifest) : kept);
  };
  spec_.data.dataset = "books@" + hash;
  spec_.data.train = spec_.data.tokenizer_file = "";
  const auto opened = open_job_tokenizer(spec_, data::DataRoots(), read);
  ASSERT_TRUE(opened.ok()) << to_string(opened.error());
  EXPECT_EQ((*opened)->content, kept);
  spec_.model.vocab = 701;
  EXPECT_THAT(open_job_tokenizer(spec_, data::DataRoots(), read).error().message,
              HasSubstr("the dataset's tokenizer has 702 tokens, the model has 701"));
  spec_.data.tokenizer_file = "nowhere:tokenizer.json";
  EXPECT_FALSE(open_job_tokenizer(spec_, data::DataRoots(), read).ok()) << "the job's comes first";
}

TEST_F(JobTokenizerTest, OneThatDoesNotFitTheModelIsRefused) {
  spec_.model.vocab = 701;
  const Error error = refused();
  EXPECT_EQ(error.code, Code::kValidation);
  EXPECT_THAT(error.message, HasSubstr("has 702 tokens, the model has 701"));
  EXPECT_THAT(error.remedy, HasSubstr("set model.vocab to 702"));
}

TEST_F(JobTokenizerTest, OneOfAnUnknownKindIsRefusedByItsName) {
  spec_.data.tokenizer_file =
      write("t.json", R"({"model": {"type": "WordPiece", "vocab": {"a": 0}, "merges": []}})");
  EXPECT_THAT(refused().message, HasSubstr("the model 'WordPiece' is not supported"));
  spec_.data.tokenizer_file = write("t.model", "\x0A\x0B");
  EXPECT_THAT(refused().message, HasSubstr("is not a tokenizer.json"));
  EXPECT_EQ(refused().code, Code::kValidation);
}

TEST_F(JobTokenizerTest, ACheckpointCarriesIt) {
  EXPECT_EQ(*checkpoint_tokenizer(folder_, spec_), nullptr);
  fs::copy_file(spec_.data.tokenizer_file, folder_ / kTokenizerFile);
  const auto found = checkpoint_tokenizer(folder_, spec_);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->vocabulary(), 702);
}

}  // namespace
}  // namespace shoal::trainer
