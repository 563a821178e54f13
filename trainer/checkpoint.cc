// See checkpoint.h.
#include "trainer/checkpoint.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "proto/job_spec_text.h"
#include "trainer/parameter_layout.h"
#include "trainer/safetensors.h"

namespace shoal::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

std::span<const float> slot_values(std::span<const float> flat, const TensorSlot& slot) {
  return flat.subspan(static_cast<std::size_t>(slot.first), static_cast<std::size_t>(slot.count));
}

Json llama_config(const ModelSpec& model) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", model.hidden},
          {"intermediate_size", model.ffn},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads},
          {"head_dim", model.hidden / model.heads},
          {"max_position_embeddings", model.context},
          {"vocab_size", model.vocab},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"rope_scaling", nullptr},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", 0.0},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", *model.tie_embeddings}};
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
          {"layer_norm_epsilon", 1e-5},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"scale_attn_weights", true},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", *model.tie_embeddings}};
}

// No token of these vocabularies begins, ends or pads a text: the libraries' defaults would be
// wrong ones.
void add_special_tokens(Json& config) {
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  config["pad_token_id"] = nullptr;
}

std::string model_config(const ModelSpec& model) {
  Json config = model.family == ModelFamily::kLlama ? llama_config(model) : gpt2_config(model);
  add_special_tokens(config);
  config["use_cache"] = true;
  config["torch_dtype"] = "float32";
  return config.dump(2) + "\n";
}

std::string generation_config() {
  Json config;
  add_special_tokens(config);
  config["do_sample"] = true;
  config["temperature"] = 0.8;
  config["top_k"] = 40;
  return config.dump(2) + "\n";
}

Json tokenizer_description(Tokenizer tokenizer) {
  if (tokenizer == Tokenizer::kBytes) {
    return {{"kind", "bytes"}, {"description", "token = byte of the UTF-8 text, 0 to 255"}};
  }
  return {{"kind", "uint16"},
          {"description", "token = little-endian uint16 of the training file; text by its maker"}};
}

std::string shoal_json(const CheckpointContent& content) {
  const Json json = {{"format", kFormat},
                     {"spec", Json::parse(proto::spec_to_json(content.spec).dump())},
                     {"round",
                      {{"job", content.key.job.n},
                       {"lineage", content.key.lineage},
                       {"round", content.key.round}}},
                     {"step", content.step.count()},
                     {"adam_step", content.adam_step},
                     {"value_count", content.anchor.size()},
                     {"digests",
                      {{"anchor", to_hex(digest_of(content.anchor))},
                       {"momentum", to_hex(digest_of(content.momentum))},
                       {"adam_m", to_hex(digest_of(content.adam_m))},
                       {"adam_v", to_hex(digest_of(content.adam_v))}}},
                     {"tokenizer", tokenizer_description(content.spec.data.tokenizer)}};
  return json.dump(2) + "\n";
}

Status sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  if (synced) return {};
  return Error{Code::kUnavailable, "cannot sync " + folder.string(), "", ""};
}

Status write_tensors(const std::filesystem::path& folder, const CheckpointContent& content) {
  std::vector<TensorToWrite> model;
  for (const TensorSlot& slot :
       parameter_layout(content.spec.model, whole_model(content.spec.model))) {
    model.push_back({slot.name, slot.shape, slot_values(content.anchor, slot)});
  }
  const Metadata metadata = {{"format", "pt"}};
  if (Status s = write_safetensors(folder / "model.safetensors", model, metadata); !s) return s;
  const std::vector<std::int64_t> flat = {static_cast<std::int64_t>(content.anchor.size())};
  return write_safetensors(folder / "shoal_state.safetensors",
                           {{"outer_momentum", flat, content.momentum},
                            {"adam_m", flat, content.adam_m},
                            {"adam_v", flat, content.adam_v}},
                           {});
}

struct Head {  // shoal.json, read
  JobSpec spec;
  RoundKey key;
  Steps step;
  std::int64_t adam_step = 0;
  std::map<std::string, std::string> digests;
};

Result<Head> read_head(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) {
    return Error{Code::kNotFound, path.string() + " cannot be read", "",
                 "name the folder of a Shoal checkpoint"};
  }
  const auto bad = [&](const std::string& why) {
    return Error{Code::kDataLoss, path.string() + ": " + why, "",
                 "take another copy of the checkpoint"};
  };
  Head head;
  try {
    const auto json = nlohmann::json::parse(*text);
    if (json.at("format") != kFormat) {
      return Error{Code::kIncompatible, path.string() + " has an unknown format", "",
                   "use the version of Shoal that wrote it"};
    }
    auto spec = proto::read_spec_json(json.at("spec").dump());
    if (spec.problems) return bad("its spec is not accepted: " + spec.problems->summary);
    head.spec = with_derived_fields(std::move(spec.spec));
    const auto& round = json.at("round");
    head.key = {JobId(round.at("job").get<std::uint64_t>()),
                round.at("lineage").get<std::int64_t>(), round.at("round").get<RoundNumber>()};
    head.step = Steps(json.at("step").get<std::int64_t>());
    head.adam_step = json.at("adam_step").get<std::int64_t>();
    head.digests = json.at("digests").get<std::map<std::string, std::string>>();
  } catch (const nlohmann::json::exception& e) {
    return bad(e.what());
  }
  return head;
}

Status check_digest(const Head& head, const std::string& name, std::span<const float> values) {
  const auto it = head.digests.find(name);
  if (it != head.digests.end() && it->second == to_hex(digest_of(values))) return {};
  return Error{Code::kDataLoss, "the digest of " + name + " does not match the checkpoint's", "",
               "take another copy of the checkpoint"};
}

Status read_anchor(const std::filesystem::path& folder, const Head& head, std::vector<float>& out) {
  const auto file = SafetensorsFile::open(folder / "model.safetensors");
  if (!file) return file.error();
  out.resize(static_cast<std::size_t>(parameter_count(head.spec.model)));
  for (const TensorSlot& slot : parameter_layout(head.spec.model, whole_model(head.spec.model))) {
    const auto values = std::span(out).subspan(static_cast<std::size_t>(slot.first),
                                               static_cast<std::size_t>(slot.count));
    if (Status s = file->read(slot.name, slot.shape, values); !s) return s;
  }
  return check_digest(head, "anchor", out);
}

Status read_state(const std::filesystem::path& folder, const Head& head, Checkpoint& out) {
  const auto file = SafetensorsFile::open(folder / "shoal_state.safetensors");
  if (!file) return file.error();
  const std::vector<std::int64_t> flat = {static_cast<std::int64_t>(out.anchor.size())};
  const auto read = [&](const char* tensor, const char* digest, std::vector<float>& values) {
    values.resize(out.anchor.size());
    const Status s = file->read(tensor, flat, values);
    return s ? check_digest(head, digest, values) : s;
  };
  if (Status s = read("outer_momentum", "momentum", out.momentum); !s) return s;
  if (Status s = read("adam_m", "adam_m", out.adam_m); !s) return s;
  return read("adam_v", "adam_v", out.adam_v);
}

}  // namespace

Status write_checkpoint(const std::filesystem::path& folder, const CheckpointContent& content) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{Code::kUnavailable, "cannot create " + folder.string() + ": " + error.message(),
                 "", ""};
  }
  if (Status s = write_tensors(folder, content); !s) return s;
  if (Status s = write_file(folder / "config.json", model_config(content.spec.model)); !s) return s;
  if (Status s = write_file(folder / "generation_config.json", generation_config()); !s) return s;
  if (Status s = write_file(folder / "shoal.json", shoal_json(content)); !s) return s;
  return sync_folder(folder);
}

Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder, bool with_state) {
  const auto head = read_head(folder / "shoal.json");
  if (!head) return head.error();
  Checkpoint out{head->spec, head->key, head->step, {}, {}, {}, {}, head->adam_step};
  if (Status s = read_anchor(folder, *head, out.anchor); !s) return s.error();
  if (with_state) {
    if (Status s = read_state(folder, *head, out); !s) return s.error();
  }
  return out;
}

}  // namespace shoal::trainer
