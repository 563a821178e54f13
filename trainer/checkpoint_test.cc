// What is written is read back with the same digests, for both families; damage and mix-ups are
// refused.
#include "trainer/checkpoint.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "trainer/parameter_layout.h"
#include "trainer/safetensors.h"

namespace shoal::trainer {
namespace {

class CheckpointTest : public testing::TestWithParam<ModelFamily> {
 protected:
  CheckpointTest() {
    spec_.name = "test";
    spec_.model = {GetParam(), 2, 16, 2, 0, 0, 8, 256};
    spec_.data.train = "/data/text";
    spec_ = with_derived_fields(spec_);
    const auto size = static_cast<std::size_t>(parameter_count(spec_.model));
    for (auto* vector : {&anchor_, &momentum_, &m_, &v_}) vector->resize(size);
    const auto layout = parameter_layout(spec_.model, whole_model(spec_.model));
    initialize(layout, 1, anchor_);
    initialize(layout, 2, momentum_);
    initialize(layout, 3, m_);
    initialize(layout, 4, v_);
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("shoal_checkpoint_test_") + to_string(GetParam()));
    std::filesystem::remove_all(folder_);
  }
  CheckpointContent content() {
    return {spec_, {JobId(7), 1, 12}, Steps(600), anchor_, momentum_, m_, v_, 599};
  }

  JobSpec spec_;
  std::vector<float> anchor_, momentum_, m_, v_;
  std::filesystem::path folder_;
};

TEST_P(CheckpointTest, RoundTrip) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  const auto read = read_checkpoint(folder_, true);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->spec, spec_);
  EXPECT_EQ(read->key, (RoundKey{JobId(7), 1, 12}));
  EXPECT_EQ(read->step, Steps(600));
  EXPECT_EQ(read->adam_step, 599);
  EXPECT_EQ(read->anchor, anchor_);
  EXPECT_EQ(read->momentum, momentum_);
  EXPECT_EQ(read->adam_m, m_);
  EXPECT_EQ(read->adam_v, v_);
  EXPECT_EQ(read_checkpoint(folder_, false)->anchor, anchor_);
}

TEST_P(CheckpointTest, ConfigNamesTheArchitecture) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  const auto config = nlohmann::json::parse(read_file(folder_ / "config.json").value());
  const bool llama = GetParam() == ModelFamily::kLlama;
  EXPECT_EQ(config["architectures"][0], llama ? "LlamaForCausalLM" : "GPT2LMHeadModel");
  EXPECT_EQ(config["model_type"], llama ? "llama" : "gpt2");
  EXPECT_EQ(config["vocab_size"], 256);
  EXPECT_EQ(config[llama ? "hidden_size" : "n_embd"], 16);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "generation_config.json"));
}

TEST_P(CheckpointTest, DamageIsNoticedByDigest) {
  ASSERT_TRUE(write_checkpoint(folder_, content()).ok());
  std::string bytes = read_file(folder_ / "model.safetensors").value();
  bytes[bytes.size() - 3] ^= 1;
  ASSERT_TRUE(write_file(folder_ / "model.safetensors", bytes).ok());
  const auto read = read_checkpoint(folder_, false);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kDataLoss);
}

TEST_P(CheckpointTest, MissingFolderIsNotFound) {
  EXPECT_EQ(read_checkpoint(folder_, true).error().code, Code::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Families, CheckpointTest,
                         testing::Values(ModelFamily::kLlama, ModelFamily::kGpt2));

}  // namespace
}  // namespace shoal::trainer
