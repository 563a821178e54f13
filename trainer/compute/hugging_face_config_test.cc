// What we write is read back, for both families; what the libraries wrote is read; what Shoal does
// not compute is refused by name.
#include "trainer/compute/hugging_face_config.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trainer/compute/checkpoint_config.h"
#include "trainer/plain/safetensors.h"

namespace shoal::trainer {
namespace {

using testing::HasSubstr;

ModelSpec read(const std::string& text) {
  const auto model = read_model_config(text, "config.json");
  EXPECT_TRUE(model.ok()) << to_string(model.error());
  return model.ok() ? *model : ModelSpec();
}

TEST(HuggingFaceConfig, WhatIsWrittenIsReadBack) {
  JobSpec spec;
  spec.model.head_dim = 24;
  spec.model.kv_heads = 2;
  spec.model.norm_eps = 1e-6;
  for (const RopeSpec& rope : {RopeSpec{}, RopeSpec{1e6, RopeScaling::kLinear, 4},
                               RopeSpec{5e5, RopeScaling::kLlama3, 8, 1, 4, 8192}}) {
    for (const bool qwen2 : {false, true}) {
      spec.model.rope = rope;
      spec.model.qkv_bias = spec.model.tie_embeddings.emplace(qwen2);
      const ModelSpec model = with_derived_fields(spec).model;
      EXPECT_EQ(read(model_config(model)), model);
    }
  }
  JobSpec gpt2;
  gpt2.model.family = ModelFamily::kGpt2;
  const ModelSpec model = with_derived_fields(gpt2).model;
  EXPECT_EQ(read(model_config(model)), model);
}

TEST(HuggingFaceConfig, FilesOfTheLibrariesAreRead) {
  const auto config = [](const char* name) {
    const auto folder = std::filesystem::path(SHOAL_GOLDEN_DIR) / "transformers" / name;
    return read(read_file(folder / "config.json").value());
  };
  const ModelSpec llama3 = config("llama3"), linear = config("linear"), qwen2 = config("qwen2");
  EXPECT_EQ(llama3.rope, (RopeSpec{500'000, RopeScaling::kLlama3, 8, 1, 4, 16}));
  EXPECT_EQ(llama3.head_dim, 12);
  EXPECT_EQ(llama3.norm_eps, 1e-6);
  EXPECT_EQ(llama3.context, 64);
  EXPECT_EQ(linear.rope, (RopeSpec{10'000, RopeScaling::kLinear, 4}));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_TRUE(*qwen2.tie_embeddings);
  EXPECT_EQ(qwen2.rope.theta, 1e6);
  EXPECT_EQ(qwen2.head_dim, 8);
}

// As versions before 5 write it.
TEST(HuggingFaceConfig, ScalingBesideThetaIsRead) {
  auto json = nlohmann::json::parse(model_config(with_derived_fields({}).model));
  json["rope_theta"] = 500000.0;
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  json.erase("head_dim");
  EXPECT_EQ(read(json.dump()).rope, (RopeSpec{500'000, RopeScaling::kLinear, 2}));
}

TEST(HuggingFaceConfig, WhatShoalDoesNotComputeIsRefusedByName) {
  const auto refused = [](const char* key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(model_config(with_derived_fields({}).model));
    json[key] = value;
    const auto model = read_model_config(json.dump(), "folder/config.json");
    EXPECT_FALSE(model.ok()) << key;
    return model.ok() ? "" : to_string(model.error());
  };
  EXPECT_THAT(refused("model_type", "gemma"),
              HasSubstr("folder/config.json: model_type is 'gemma'"));
  EXPECT_THAT(refused("attention_bias", true), HasSubstr("attention_bias is true"));
  EXPECT_THAT(refused("hidden_act", "gelu"), HasSubstr("hidden_act is \"gelu\""));
  EXPECT_THAT(refused("rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}}), HasSubstr("'yarn'"));
  EXPECT_THAT(refused("hidden_size", "wide"), HasSubstr("cannot be read"));
  EXPECT_THAT(refused("num_attention_heads", 0), HasSubstr("no attention heads"));
}

// As Python's json module writes them.
TEST(HuggingFaceConfig, NumbersThatAreNoJsonAreNamedWithTheirLine) {
  const auto refused = [](const std::string& line) {
    const std::string text = "{\n  \"model_type\": \"llama\",\n" + line + "\n}";
    return to_string(read_model_config(text, "folder/config.json").error());
  };
  EXPECT_EQ(
      refused("  \"note\": Infinity"),
      "model.init: folder/config.json:3: Infinity is not JSON (write null or a number there)");
  EXPECT_THAT(refused("  \"a\": [1,\n -Infinity]"),
              HasSubstr("config.json:4: -Infinity is not JSON"));
  EXPECT_THAT(refused("  \"NaN\": \"Infinity \\\" NaN\", \"x\": NaN"),
              HasSubstr("3: NaN is not JSON"));
  EXPECT_THAT(refused("  \"note\": oops"), HasSubstr("take another copy"));
}

}  // namespace
}  // namespace shoal::trainer
