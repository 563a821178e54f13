// What we write is read back, for both families; what the libraries wrote is read; what Shoal does
// not compute is refused by name.
#include "trainer/compute/hugging_face_config.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "replica/checkpoint/safetensors.h"
#include "threads/file_content.h"
#include "trainer/compute/checkpoint_config.h"

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
    return read(file_content(folder / "config.json").value());
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
  EXPECT_THAT(refused("num_attention_heads", 0), HasSubstr("no attention heads"));
}

// A config.json with `more`, which ends with a comma, at its beginning.
std::string with(const std::string& more) {
  const std::string usual = model_config(with_derived_fields({}).model);
  return "{\n" + more + usual.substr(usual.find('{') + 1);
}
std::string refusal(const std::string& text) {
  const auto model = read_model_config(text, "folder/config.json");
  EXPECT_FALSE(model.ok()) << text;
  return model.ok() ? "" : to_string(model.error());
}

TEST(HuggingFaceConfig, AValueOfAnotherTypeIsNamed) {
  auto json = nlohmann::json::parse(model_config(with_derived_fields({}).model));
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    auto other = json;
    other[key] = value;
    return refusal(other.dump());
  };
  EXPECT_THAT(refused("hidden_size", "wide"),
              HasSubstr("folder/config.json: hidden_size is \"wide\", not a number from 0"));
  EXPECT_THAT(refused("hidden_size", 12.5), HasSubstr("hidden_size is 12.5, not a number"));
  EXPECT_THAT(refused("hidden_size", -8), HasSubstr("hidden_size is -8, not a number"));
  EXPECT_THAT(refused("vocab_size", std::uint64_t{1} << 63), HasSubstr("vocab_size is 9223"));
  EXPECT_THAT(refused("vocab_size", 1e300), HasSubstr("vocab_size is 1e+300"));
  EXPECT_THAT(refused("rms_norm_eps", "small"), HasSubstr("rms_norm_eps is \"small\", not a"));
  EXPECT_THAT(refused("tie_word_embeddings", 1), HasSubstr("tie_word_embeddings is 1, not true"));
  EXPECT_THAT(refused("hidden_act", std::string(10'000, 'x')).size(), testing::Lt(400U));
  EXPECT_THAT(refusal("[]"), HasSubstr("it is no object"));
  json.erase("num_hidden_layers");
  EXPECT_THAT(refusal(json.dump()), HasSubstr("num_hidden_layers is missing"));
  json["hidden_size"] = 128.0;
  json["num_hidden_layers"] = 4;
  EXPECT_EQ(read(json.dump()).hidden, 128);
}

// As Python's json module writes them: passed over where nothing is computed with them.
TEST(HuggingFaceConfig, NumbersThatAreNotFiniteAreReadAndNotUsed) {
  const ModelSpec usual = with_derived_fields({}).model;
  EXPECT_EQ(read(with("\"note\": Infinity, \"limits\": [0.0, -Infinity, NaN, 1e999],\n")), usual);
  EXPECT_EQ(read(with("\"name\": \"NaN \\ud83d\",\n")), usual);
  std::string text = model_config(usual);
  text.replace(text.find("1e-05"), 5, "NaN");
  EXPECT_THAT(refusal(text),
              HasSubstr("rms_norm_eps is \"a number that is not finite\", not a number"));
}

TEST(HuggingFaceConfig, WhatIsNotJsonIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(with("\"note\": oops,\n")),
              HasSubstr("folder/config.json is not JSON at line 2"));
  EXPECT_THAT(refusal(""), HasSubstr("folder/config.json is empty"));
  EXPECT_THAT(refusal(with("\"deep\": " + std::string(5000, '[') + std::string(5000, ']') + ",\n")),
              HasSubstr("nested deeper"));
}

TEST(HuggingFaceConfig, QuantizedWeightsAreRefusedByName) {
  EXPECT_THAT(refusal(with("\"quantization_config\": {\"quant_method\": \"gptq\"},\n")),
              HasSubstr("the weights are quantized (quantization_config, quant_method 'gptq')"));
  EXPECT_THAT(refusal(with("\"compression_config\": {},\n")), HasSubstr("(compression_config)"));
  EXPECT_EQ(read(with("\"quantization_config\": null,\n")), with_derived_fields({}).model);
}

// A Mistral is a Llama whose attention ends at a window.
TEST(HuggingFaceConfig, AMistralIsReadWhereItsWindowHoldsTheContext) {
  const auto config = [](const nlohmann::json& window) {
    auto json = nlohmann::json::parse(model_config(with_derived_fields({}).model));
    json["model_type"] = "mistral";
    json["max_position_embeddings"] = 8192;
    if (window.is_discarded()) {
      json.erase("sliding_window");
    } else {
      json["sliding_window"] = window;
    }
    return json.dump();
  };
  ModelSpec expected = with_derived_fields({}).model;
  expected.context = 8192;
  EXPECT_EQ(read(config(nullptr)), expected);
  EXPECT_EQ(read(config(8192)), expected);
  const auto at = [&](const nlohmann::json& window, std::int64_t context) {
    return read_model_config(config(window), "folder/config.json", context);
  };
  EXPECT_TRUE(at(4096, 4096).ok());
  const auto refused = at(4096, 4097);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
  EXPECT_EQ(
      to_string(refused.error()),
      "model.init: folder/config.json: sliding_window is 4096, and Shoal attends to the whole "
      "context of 4097 (set model.context to at most 4096, where both are the same)");
  // Without the key the library's is 4096.
  const nlohmann::json missing(nlohmann::json::value_t::discarded);
  EXPECT_TRUE(at(missing, 4096).ok());
  EXPECT_FALSE(at(missing, 4097).ok());
}

TEST(HuggingFaceConfig, AWindowOfAQwen2CountsWhereItIsUsed) {
  JobSpec spec;
  spec.model.qkv_bias = true;
  auto json = nlohmann::json::parse(model_config(with_derived_fields(spec).model));
  json["sliding_window"] = 64;
  EXPECT_EQ(read(json.dump()).context, 128) << "use_sliding_window is false";
  json["use_sliding_window"] = true;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("sliding_window is 64"));
  EXPECT_TRUE(read_model_config(json.dump(), "config.json", 64).ok());
}

}  // namespace
}  // namespace shoal::trainer
