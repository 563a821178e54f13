// See checkpoint_config.h.
#include "trainer/compute/checkpoint_config.h"

#include <nlohmann/json.hpp>

#include "replica/checkpoint/part_file.h"
#include "replica/checkpoint/safetensors.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json rope_scaling(const RopeSpec& rope) {
  switch (rope.scaling) {
    case RopeScaling::kNone:
      return nullptr;
    case RopeScaling::kLinear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeScaling::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"original_max_position_embeddings", rope.original_context}};
  }
  return nullptr;  // unreachable: every word has its case
}

// The libraries know a Llama whose q, k and v alone have biases as Qwen2.
Json llama_config(const ModelSpec& model) {
  const bool qwen2 = model.qkv_bias;
  Json config = {{"architectures", {qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
                 {"model_type", qwen2 ? "qwen2" : "llama"},
                 {"hidden_size", model.hidden},
                 {"intermediate_size", model.ffn},
                 {"num_hidden_layers", model.layers},
                 {"num_attention_heads", model.heads},
                 {"num_key_value_heads", model.kv_heads},
                 {"head_dim", model.head_dim},
                 {"max_position_embeddings", model.context},
                 {"vocab_size", model.vocab},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", model.norm_eps},
                 {"rope_theta", model.rope.theta},
                 {"rope_scaling", rope_scaling(model.rope)},
                 {"attention_dropout", 0.0},
                 {"initializer_range", 0.02},
                 {"tie_word_embeddings", *model.tie_embeddings}};
  if (qwen2) {
    config["use_sliding_window"] = false;
  } else {
    config["attention_bias"] = false;
    config["mlp_bias"] = false;
  }
  return config;
}

Json gpt2_config(const ModelSpec& model) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", model.hidden},
          {"n_inner", model.ffn},
          {"n_layer", model.layers},
          {"n_head", model.heads},
          {"n_positions", model.context},
          {"n_ctx", model.context},
          {"vocab_size", model.vocab},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", model.norm_eps},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"scale_attn_weights", true},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", *model.tie_embeddings}};
}

// Null where no token begins, ends or pads a text: the libraries' defaults would be wrong ones.
void add_special_tokens(Json& config, const SpecialTokens& tokens) {
  const auto& eos = tokens.eos;
  config["bos_token_id"] = tokens.bos ? Json(*tokens.bos) : Json();
  config["eos_token_id"] = eos.size() > 1 ? Json(eos) : eos.empty() ? Json() : Json(eos.front());
  config["pad_token_id"] = tokens.pad ? Json(*tokens.pad) : Json();
}

}  // namespace

std::string model_file(StageIndex stage, std::size_t stages) {
  return replica::tensor_file("model", stage, stages);
}

std::string model_config(const ModelSpec& model, Precision precision, const SpecialTokens& tokens) {
  Json config = model.family == ModelFamily::kLlama ? llama_config(model) : gpt2_config(model);
  add_special_tokens(config, tokens);
  config["use_cache"] = true;
  config["torch_dtype"] = precision == Precision::kBf16 ? "bfloat16" : "float32";
  return config.dump(2) + "\n";
}

std::string generation_config(const SpecialTokens& tokens) {
  Json config;
  add_special_tokens(config, tokens);
  config["do_sample"] = true;
  config["temperature"] = 0.8;
  config["top_k"] = 40;
  return config.dump(2) + "\n";
}

std::string shard_index(const std::vector<TensorPlace>& places, Bytes total) {
  Json files;
  for (const auto& [tensor, file] : places) files[tensor] = file;
  const Json index = {{"metadata", {{"total_size", total.count()}}}, {"weight_map", files}};
  return index.dump(2) + "\n";
}

std::string shard_index(const ModelSpec& model, const std::vector<UnitRange>& cut) {
  std::vector<TensorPlace> places;
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    const std::string file = model_file(static_cast<StageIndex>(stage), cut.size());
    for (TensorSlot& slot : parameter_layout(model, cut[stage])) {
      places.push_back({std::move(slot.name), file});
    }
  }
  return shard_index(places,
                     Bytes(parameter_count(model) * replica::bytes_per_value(Precision::kFp32)));
}

}  // namespace shoal::trainer
