// See hugging_face_config.h. Versions of the libraries before 5 keep rope_theta beside
// rope_scaling, later ones both in rope_parameters; rope_type was called type once.
#include "trainer/compute/hugging_face_config.h"

#include <nlohmann/json.hpp>

namespace shoal::trainer {
namespace {

using Json = nlohmann::json;

// An option that must have one value, where it is given.
struct Fixed {
  const char* key;
  Json value;
};

Error incompatible(const std::string& path, const std::string& what, const std::string& remedy) {
  return {Code::kIncompatible, path + ": " + what, "model.init", remedy};
}

// A key that is missing or null has the default of the libraries.
template <typename T>
T value_or(const Json& config, const char* key, T otherwise) {
  const auto it = config.find(key);
  return it == config.end() || it->is_null() ? otherwise : it->get<T>();
}

Status check_fixed(const Json& config, const std::vector<Fixed>& fixed, const std::string& path) {
  for (const auto& [key, value] : fixed) {
    const auto it = config.find(key);
    if (it == config.end() || it->is_null() || *it == value) continue;
    return incompatible(path,
                        std::string(key) + " is " + it->dump() + ", and Shoal computes with " +
                            value.dump() + " only",
                        "choose a model without it");
  }
  return {};
}

Result<RopeSpec> rope_of(const Json& config, const std::string& path) {
  Json given = value_or(config, "rope_parameters", Json::object());
  if (given.empty()) given = value_or(config, "rope_scaling", Json::object());
  RopeSpec rope;
  rope.theta = value_or(given, "rope_theta", value_or(config, "rope_theta", rope.theta));
  const std::string type =
      value_or<std::string>(given, "rope_type", value_or<std::string>(given, "type", "default"));
  if (type == "default") return rope;
  rope.factor = given.at("factor").get<double>();
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    return rope;
  }
  if (type != "llama3") {
    return incompatible(path, "rope_type is '" + type + "'",
                        "choose a model with 'default', 'linear' or 'llama3'");
  }
  rope.scaling = RopeScaling::kLlama3;
  rope.low_freq_factor = given.at("low_freq_factor").get<double>();
  rope.high_freq_factor = given.at("high_freq_factor").get<double>();
  rope.original_context = given.at("original_max_position_embeddings").get<std::int64_t>();
  return rope;
}

Result<ModelSpec> llama_of(const Json& config, bool qwen2, const std::string& path) {
  const std::vector<Fixed> fixed = {{"hidden_act", "silu"},
                                    {"attention_bias", false},
                                    {"mlp_bias", false},
                                    {"use_sliding_window", false}};
  if (Status s = check_fixed(config, fixed, path); !s) return s.error();
  ModelSpec model;
  model.layers = config.at("num_hidden_layers").get<std::int64_t>();
  model.hidden = config.at("hidden_size").get<std::int64_t>();
  model.heads = config.at("num_attention_heads").get<std::int64_t>();
  model.kv_heads = value_or<std::int64_t>(config, "num_key_value_heads", 0);
  model.head_dim = value_or<std::int64_t>(config, "head_dim", 0);
  model.ffn = config.at("intermediate_size").get<std::int64_t>();
  model.context = value_or<std::int64_t>(config, "max_position_embeddings", 2048);
  model.vocab = config.at("vocab_size").get<std::int64_t>();
  model.tie_embeddings = value_or(config, "tie_word_embeddings", false);
  model.qkv_bias = qwen2;
  model.norm_eps = value_or(config, "rms_norm_eps", 1e-6);
  const auto rope = rope_of(config, path);
  if (!rope) return rope.error();
  model.rope = *rope;
  return model;
}

Result<ModelSpec> gpt2_of(const Json& config, const std::string& path) {
  const std::vector<Fixed> fixed = {{"activation_function", "gelu_new"},
                                    {"scale_attn_weights", true},
                                    {"scale_attn_by_inverse_layer_idx", false}};
  if (Status s = check_fixed(config, fixed, path); !s) return s.error();
  ModelSpec model;
  model.family = ModelFamily::kGpt2;
  model.layers = config.at("n_layer").get<std::int64_t>();
  model.hidden = config.at("n_embd").get<std::int64_t>();
  model.heads = config.at("n_head").get<std::int64_t>();
  model.ffn = value_or<std::int64_t>(config, "n_inner", 0);
  model.context = config.at("n_positions").get<std::int64_t>();
  model.vocab = config.at("vocab_size").get<std::int64_t>();
  model.tie_embeddings = value_or(config, "tie_word_embeddings", true);
  model.norm_eps = value_or(config, "layer_norm_epsilon", 1e-5);
  return model;
}

Result<ModelSpec> model_of(const Json& config, const std::string& path) {
  const std::string type = config.at("model_type").get<std::string>();
  if (type == "llama" || type == "qwen2") return llama_of(config, type == "qwen2", path);
  if (type == "gpt2") return gpt2_of(config, path);
  return incompatible(path, "model_type is '" + type + "'",
                      "choose a model of type 'llama', 'qwen2' or 'gpt2'");
}

// Python's json module writes NaN and Infinity, which are no JSON: where the first of them is.
Error not_readable(const std::string& text, const std::string& path, const std::string& why) {
  bool in_text = false;
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    line += text[at] == '\n';
    if (in_text && text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      in_text = !in_text;
    const std::string_view rest = std::string_view(text).substr(std::min(at, text.size()));
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (in_text || !rest.starts_with(word)) continue;
      return {Code::kInvalidArgument,
              path + ":" + std::to_string(line) + ": " + std::string(word) + " is not JSON",
              "model.init", "write null or a number there"};
    }
  }
  return {Code::kInvalidArgument, path + " cannot be read: " + why, "model.init",
          "take another copy of the folder"};
}

}  // namespace

Result<ModelSpec> read_model_config(const std::string& text, const std::string& path) {
  JobSpec spec;
  try {
    auto model = model_of(Json::parse(text), path);
    if (!model) return model.error();
    spec.model = *model;
  } catch (const Json::exception& e) {
    return not_readable(text, path, e.what());
  }
  if (spec.model.heads < 1) return incompatible(path, "it has no attention heads", "");
  return with_derived_fields(spec).model;
}

}  // namespace shoal::trainer
