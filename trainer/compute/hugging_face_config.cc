// See hugging_face_config.h. Versions of the libraries before 5 keep rope_theta beside
// rope_scaling, later ones both in rope_parameters; rope_type was called type once.
#include "trainer/compute/hugging_face_config.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "base/wire_text.h"
#include "tokenizer/python_json.h"

namespace shoal::trainer {
namespace {

using Json = nlohmann::json;

// Any size; and what is derived from it fits in 64 bits.
constexpr std::int64_t kIntegerMax = std::int64_t{1} << 40;
constexpr std::size_t kShownMax = 80;  // bytes of a value

// An option that must have one value, where it is given.
struct Fixed {
  const char* key;
  Json value;
};

struct Refusal {
  Error error;
};

// The value as JSON, or its beginning.
std::string shown(const Json& value) { return valid_text(value.dump(), kShownMax); }
std::string short_word(const std::string& text) { return "'" + valid_text(text, kShownMax) + "'"; }

// An object of config.json. A key that is missing or null has the default of the libraries. What
// has another type is refused by its name: the Refusal is thrown.
class Config {
 public:
  Config(const Json& object, const std::string& path) : object_(object), path_(path) {
    if (!object.is_object()) malformed("it is no object");
  }

  bool has(const char* key) const { return object_.contains(key); }
  // Null: it is missing, or null.
  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  std::int64_t integer(const char* key) const {
    const Json& value = at(key);
    const bool whole = value.is_number_float()
                           ? std::trunc(value.get<double>()) == value.get<double>()
                           : value.is_number_integer();
    const double size = value.is_number() ? value.get<double>() : -1;
    if (!whole || size < 0 || size > static_cast<double>(kIntegerMax)) {
      malformed(std::string(key) + " is " + shown(value) + ", not a number from 0 to 2^40");
    }
    return value.get<std::int64_t>();
  }
  std::int64_t integer_or(const char* key, std::int64_t otherwise) const {
    return find(key) != nullptr ? integer(key) : otherwise;
  }
  double number(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number()) malformed(std::string(key) + " is " + shown(value) + ", not a number");
    return value.get<double>();
  }
  double number_or(const char* key, double otherwise) const {
    return find(key) != nullptr ? number(key) : otherwise;
  }
  bool flag_or(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) {
      malformed(std::string(key) + " is " + shown(*value) + ", not true or false");
    }
    return value->get<bool>();
  }
  std::string text_or(const char* key, const std::string& otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) malformed(std::string(key) + " is " + shown(*value) + ", not a text");
    return value->get<std::string>();
  }

  [[noreturn]] void malformed(const std::string& what) const {
    throw Refusal{
        {Code::kInvalidArgument, path_ + ": " + what, "model.init",
         "write there what the model's makers wrote, or take another copy of the folder"}};
  }
  [[noreturn]] void incompatible(const std::string& what, const std::string& remedy) const {
    throw Refusal{{Code::kIncompatible, path_ + ": " + what, "model.init", remedy}};
  }
  const std::string& path() const { return path_; }

 private:
  const Json& at(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) malformed(std::string(key) + " is missing");
    return *value;
  }

  const Json& object_;
  const std::string& path_;
};

void check_fixed(const Config& config, const std::vector<Fixed>& fixed) {
  for (const auto& [key, value] : fixed) {
    const Json* given = config.find(key);
    if (given == nullptr || *given == value) continue;
    config.incompatible(std::string(key) + " is " + shown(*given) + ", and Shoal computes with " +
                            value.dump() + " only",
                        "choose a model without it");
  }
}

// The files then hold integers and scales, even where some tensors look like those of the model.
void check_not_quantized(const Config& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const Json* given = config.find(key);
    if (given == nullptr) continue;
    std::string method;
    if (given->is_object()) method = Config(*given, config.path()).text_or("quant_method", "");
    config.incompatible(
        "the weights are quantized (" + std::string(key) +
            (method.empty() ? "" : ", quant_method " + short_word(method)) + ")",
        "choose the model in fp32, fp16 or bf16; dequantize() of transformers makes it of some");
  }
}

// A sliding window is attention to the last positions only, which is attention to all of them in a
// context that is no longer. Qwen2 has one only where use_sliding_window says so. In both it is
// kUsual where config.json does not name it, and none where it is null.
void check_window(const Config& config, bool mistral, std::int64_t context) {
  constexpr std::int64_t kUsual = 4096;
  if (!mistral && !config.flag_or("use_sliding_window", false)) return;
  const bool is_null = config.has("sliding_window") && config.find("sliding_window") == nullptr;
  if (is_null) return;
  const std::int64_t window = config.integer_or("sliding_window", kUsual);
  if (window >= context) return;
  config.incompatible(
      "sliding_window is " + std::to_string(window) +
          ", and Shoal attends to the whole context of " + std::to_string(context),
      "set model.context to at most " + std::to_string(window) + ", where both are the same");
}

RopeSpec rope_of(const Config& config) {
  static const Json kNone = Json::object();
  const Json* given = config.find("rope_parameters");
  if (given == nullptr || given->empty()) given = config.find("rope_scaling");
  const Config scaling(given != nullptr ? *given : kNone, config.path());
  RopeSpec rope;
  rope.theta = scaling.number_or("rope_theta", config.number_or("rope_theta", rope.theta));
  const std::string type = scaling.text_or("rope_type", scaling.text_or("type", "default"));
  if (type == "default") return rope;
  if (type != "llama3" && type != "linear") {
    config.incompatible("rope_type is " + short_word(type),
                        "choose a model with 'default', 'linear' or 'llama3'");
  }
  rope.factor = scaling.number("factor");
  rope.scaling = type == "linear" ? RopeScaling::kLinear : RopeScaling::kLlama3;
  if (type == "linear") return rope;
  rope.low_freq_factor = scaling.number("low_freq_factor");
  rope.high_freq_factor = scaling.number("high_freq_factor");
  rope.original_context = scaling.integer("original_max_position_embeddings");
  return rope;
}

// `type`: llama, qwen2 or mistral.
ModelSpec llama_of(const Config& config, const std::string& type, std::int64_t job_context) {
  const bool mistral = type == "mistral";
  check_fixed(config, {{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}});
  ModelSpec model;
  model.layers = config.integer("num_hidden_layers");
  model.hidden = config.integer("hidden_size");
  model.heads = config.integer("num_attention_heads");
  const bool kv_named = config.has("num_key_value_heads");
  model.kv_heads = config.integer_or("num_key_value_heads", mistral && !kv_named ? 8 : 0);
  model.head_dim = config.integer_or("head_dim", 0);
  model.ffn = config.integer("intermediate_size");
  model.context = config.integer_or("max_position_embeddings", mistral ? 131'072 : 2048);
  model.vocab = config.integer("vocab_size");
  model.tie_embeddings = config.flag_or("tie_word_embeddings", false);
  model.qkv_bias = type == "qwen2";
  model.norm_eps = config.number_or("rms_norm_eps", 1e-6);
  model.rope = rope_of(config);
  check_window(config, mistral, job_context > 0 ? job_context : model.context);
  return model;
}

ModelSpec gpt2_of(const Config& config) {
  check_fixed(config, {{"activation_function", "gelu_new"},
                       {"scale_attn_weights", true},
                       {"scale_attn_by_inverse_layer_idx", false}});
  ModelSpec model;
  model.family = ModelFamily::kGpt2;
  model.layers = config.integer("n_layer");
  model.hidden = config.integer("n_embd");
  model.heads = config.integer("n_head");
  model.ffn = config.integer_or("n_inner", 0);
  model.context = config.integer("n_positions");
  model.vocab = config.integer("vocab_size");
  model.tie_embeddings = config.flag_or("tie_word_embeddings", true);
  model.norm_eps = config.number_or("layer_norm_epsilon", 1e-5);
  return model;
}

ModelSpec model_of(const Config& config, std::int64_t job_context) {
  check_not_quantized(config);
  const std::string type = config.text_or("model_type", "");
  if (type.empty()) config.malformed("model_type is missing");
  if (type == "gpt2") return gpt2_of(config);
  if (type == "llama" || type == "qwen2" || type == "mistral") {
    return llama_of(config, type, job_context);
  }
  config.incompatible("model_type is " + short_word(type),
                      "choose a model of type 'llama', 'qwen2', 'mistral' or 'gpt2'");
}

}  // namespace

Result<ModelSpec> read_model_config(const std::string& text, const std::string& path,
                                    std::int64_t job_context) {
  const auto json = tokenizer::parse_python_json(text);
  if (!json) {
    return Error{json.error().code, path + " " + json.error().message, "model.init",
                 json.error().remedy};
  }
  JobSpec spec;
  try {
    const Config config(*json, path);
    spec.model = model_of(config, job_context);
    if (spec.model.heads < 1) config.incompatible("it has no attention heads", "");
  } catch (const Refusal& refusal) {
    return refusal.error;
  }
  return with_derived_fields(spec).model;
}

}  // namespace shoal::trainer
