// What is exported holds the checkpoint's values, in files no larger than asked, and is a folder
// that a job can begin from.
#include "trainer/compute/export.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "replica/checkpoint/safetensors.h"
#include "threads/file_content.h"
#include "trainer/compute/checkpoint.h"
#include "trainer/compute/initial_weights.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ExportTest : public testing::Test {
 protected:
  ExportTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / (std::string("shoal_export_") + test->name());
    fs::remove_all(root_);
    options_.checkpoint = root_ / "checkpoint";
    options_.out = root_ / "out";
    spec_.name = "test";
    spec_.data.train = "/x";
    spec_.model = {ModelFamily::kLlama, 2, 16, 2, 0, 0, 8, 256};
    spec_.model.qkv_bias = true;
    spec_ = with_derived_fields(spec_);
    // As from a pipeline, which exports as one model.
    const std::vector<UnitRange> cut = {{0, 2}, {2, 4}};
    for (StageIndex stage = 0; stage < 2; ++stage) {
      const auto layout = parameter_layout(spec_.model, cut[static_cast<std::size_t>(stage)]);
      std::vector<float> part(static_cast<std::size_t>(value_count(layout)));
      initialize(layout, 5, part);
      values_.insert(values_.end(), part.begin(), part.end());
      EXPECT_TRUE(write_checkpoint(options_.checkpoint, {spec_,
                                                         cut,
                                                         stage,
                                                         {JobId(1), 0, 5},
                                                         Steps(9),
                                                         part,
                                                         {{"momentum", part}},
                                                         part,
                                                         part,
                                                         9})
                      .ok());
    }
  }
  Exported exported() {
    const auto done = export_checkpoint(options_);
    EXPECT_TRUE(done.ok()) << to_string(done.error());
    return done.ok() ? *done : Exported();
  }
  std::vector<float> read_back() {
    JobSpec next = spec_;
    next.model.init = "hf:" + options_.out.string();
    std::vector<float> flat(values_.size());
    const Status read = read_initial_weights(next, whole_model(next.model),
                                             data::DataRoots::whole_host(), {}, flat);
    EXPECT_TRUE(read.ok()) << to_string(read.error());
    return flat;
  }
  nlohmann::json json(const char* name) {
    return nlohmann::json::parse(file_content(options_.out / name).value());
  }

  fs::path root_;
  ExportOptions options_;
  JobSpec spec_;
  std::vector<float> values_;
};

TEST_F(ExportTest, InFp32TheValuesAreTheSame) {
  options_.precision = Precision::kFp32;
  const Exported done = exported();
  EXPECT_EQ(done.files, 1u);
  EXPECT_EQ(done.bytes, Bytes(static_cast<std::int64_t>(values_.size()) * 4));
  EXPECT_EQ(read_back(), values_);
  EXPECT_FALSE(fs::exists(options_.out / "model.safetensors.index.json"));
  EXPECT_EQ(json("config.json")["torch_dtype"], "float32");
  EXPECT_EQ(json("config.json")["model_type"], "qwen2");
}

// bf16 has 8 bits of precision.
TEST_F(ExportTest, InBf16TheyAreRounded) {
  exported();
  const auto flat = read_back();
  for (std::size_t i = 0; i < flat.size(); ++i) {
    ASSERT_NEAR(flat[i], values_[i], std::fabs(values_[i]) / 256);
  }
  EXPECT_NE(flat, values_);
  EXPECT_EQ(json("config.json")["torch_dtype"], "bfloat16");
}

TEST_F(ExportTest, NoFileIsLargerThanAsked) {
  options_.shard_max = Bytes(10'000);
  const Exported done = exported();
  EXPECT_GT(done.files, 2u);
  EXPECT_EQ(read_back().size(), values_.size());
  const auto index = json("model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], values_.size() * 2);
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(options_.out)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    EXPECT_LT(fs::file_size(entry.path()), 10'000u + 2'000u) << "with its header";
  }
  EXPECT_EQ(files, done.files);
}

TEST_F(ExportTest, TheJobsTokenizerComesAlong) {
  const std::string gpt2 = R"({"added_tokens": [{"id": 1, "content": "</s>", "special": true}],
    "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  std::ofstream(options_.checkpoint / "tokenizer.json") << gpt2;
  exported();
  EXPECT_EQ(file_content(options_.out / "tokenizer.json").value(), gpt2);
  EXPECT_EQ(json("tokenizer_config.json")["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(json("tokenizer_config.json")["eos_token"], "</s>");
  for (const char* file : {"config.json", "generation_config.json"}) {
    EXPECT_EQ(json(file)["eos_token_id"], 1) << file << ": generate() stops there";
    EXPECT_TRUE(json(file)["pad_token_id"].is_null()) << file;
  }
}

// As those of the model that the job began from.
TEST_F(ExportTest, TheCheckpointsEndsOfTextAreExported) {
  const std::string ends = R"({"bos_token_id": 3, "eos_token_id": [4, 5], "pad_token_id": 6})";
  std::ofstream(options_.checkpoint / "generation_config.json", std::ios::trunc) << ends;
  exported();
  for (const char* file : {"config.json", "generation_config.json"}) {
    EXPECT_EQ(json(file)["bos_token_id"], 3) << file;
    EXPECT_EQ(json(file)["eos_token_id"], nlohmann::json::array({4, 5})) << file;
    EXPECT_EQ(json(file)["pad_token_id"], 6) << file;
  }
}

// Its tokenizer.json has a model that Shoal does not know.
TEST_F(ExportTest, TheEndsOfTextOfTheNamedTokenizerAreExported) {
  options_.tokenizer = root_ / "tokenizer";
  fs::create_directories(options_.tokenizer);
  std::ofstream(options_.tokenizer / "tokenizer_config.json")
      << R"({"eos_token": {"content": "<end>"}, "pad_token": "<pad>"})";
  std::ofstream(options_.tokenizer / "tokenizer.json")
      << R"({"added_tokens": [{"id": 7, "content": "<end>"}],
             "model": {"type": "WordLevel", "vocab": {"<pad>": 8}}})";
  exported();
  EXPECT_EQ(json("config.json")["eos_token_id"], 7);
  EXPECT_EQ(json("config.json")["pad_token_id"], 8);
  EXPECT_EQ(json("generation_config.json")["eos_token_id"], 7);
}

TEST_F(ExportTest, WithoutATokenizerNoTokenEndsAText) {
  exported();
  EXPECT_TRUE(json("config.json")["eos_token_id"].is_null());
  EXPECT_TRUE(json("generation_config.json")["eos_token_id"].is_null());
}

TEST_F(ExportTest, TheTokenizerComesAlong) {
  options_.tokenizer = root_ / "tokenizer";
  fs::create_directories(options_.tokenizer);
  EXPECT_THAT(to_string(export_checkpoint(options_).error()),
              HasSubstr("has no file of a tokenizer"));
  fs::remove_all(options_.out);
  std::ofstream(options_.tokenizer / "tokenizer.json") << "{}";
  std::ofstream(options_.tokenizer / "weights.bin") << "x";
  exported();
  EXPECT_TRUE(fs::exists(options_.out / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(options_.out / "weights.bin"));
}

TEST_F(ExportTest, AFolderInUseAndAMissingCheckpointAreRefused) {
  exported();
  const auto again = export_checkpoint(options_);
  EXPECT_EQ(again.error().code, Code::kConflict);
  EXPECT_EQ(again.error().field, "--output");
  options_.checkpoint = root_ / "none";
  EXPECT_EQ(export_checkpoint(options_).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace shoal::trainer
