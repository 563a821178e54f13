// The two families as lists of tensors. Order and names are a file format: checkpoints and digests
// depend on them.
#include "trainer/plain/parameter_layout.h"

#include <cmath>

#include "base/check.h"
#include "base/prng.h"

namespace shoal::trainer {
namespace {

constexpr double kDeviation = 0.02;

// Collects the tensors of all units and keeps those of `kept`.
class Layout {
 public:
  Layout(const ModelSpec& model, UnitRange kept)
      : residual_deviation_(kDeviation / std::sqrt(2.0 * static_cast<double>(model.layers))),
        kept_(kept) {}

  void next_unit() { ++unit_; }

  void rows_by_token(std::string name, std::int64_t rows, std::int64_t columns) {
    add(std::move(name), {rows, columns}, true, Initial::kNormal, kDeviation);
  }
  void matrix(std::string name, std::int64_t rows, std::int64_t columns, std::int64_t parts = 1) {
    add(std::move(name), {rows, columns}, true, Initial::kNormal, kDeviation, parts);
  }
  // A matrix whose product is added to the residual stream.
  void residual(std::string name, std::int64_t rows, std::int64_t columns) {
    add(std::move(name), {rows, columns}, true, Initial::kNormal, residual_deviation_, 1);
  }
  void positions(std::string name, std::int64_t rows, std::int64_t columns) {
    add(std::move(name), {rows, columns}, false, Initial::kNormal, kDeviation);
  }
  void ones(std::string name, std::int64_t size) {
    add(std::move(name), {size}, false, Initial::kOnes, 0);
  }
  void zeros(std::string name, std::int64_t size) {
    add(std::move(name), {size}, false, Initial::kZeros, 0);
  }
  std::vector<TensorSlot> take() { return std::move(slots_); }

 private:
  void add(std::string name, std::vector<std::int64_t> shape, bool decays, Initial initial,
           double deviation, std::int64_t matrices = 0) {
    const std::uint64_t index = index_++;
    if (unit_ < kept_.first || unit_ >= kept_.last) return;
    TensorSlot slot{std::move(name), std::move(shape), next_,     1,       index,
                    decays,          initial,          deviation, matrices};
    for (const std::int64_t size : slot.shape) slot.count *= size;
    next_ += slot.count;
    slots_.push_back(std::move(slot));
  }

  double residual_deviation_;
  UnitRange kept_;
  std::int32_t unit_ = 0;
  std::uint64_t index_ = 0;
  std::int64_t next_ = 0;
  std::vector<TensorSlot> slots_;
};

void llama_embedding(const ModelSpec& model, Layout& layout) {
  layout.rows_by_token("model.embed_tokens.weight", model.vocab, model.hidden);
}

void llama_layer(const ModelSpec& model, std::int64_t index, Layout& layout) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const std::int64_t queries = query_width(model), keys = key_width(model);
  layout.ones(prefix + "input_layernorm.weight", model.hidden);
  layout.matrix(prefix + "self_attn.q_proj.weight", queries, model.hidden);
  layout.matrix(prefix + "self_attn.k_proj.weight", keys, model.hidden);
  layout.matrix(prefix + "self_attn.v_proj.weight", keys, model.hidden);
  if (model.qkv_bias) {
    layout.zeros(prefix + "self_attn.q_proj.bias", queries);
    layout.zeros(prefix + "self_attn.k_proj.bias", keys);
    layout.zeros(prefix + "self_attn.v_proj.bias", keys);
  }
  layout.residual(prefix + "self_attn.o_proj.weight", model.hidden, queries);
  layout.ones(prefix + "post_attention_layernorm.weight", model.hidden);
  layout.matrix(prefix + "mlp.gate_proj.weight", model.ffn, model.hidden);
  layout.matrix(prefix + "mlp.up_proj.weight", model.ffn, model.hidden);
  layout.residual(prefix + "mlp.down_proj.weight", model.hidden, model.ffn);
}

void tied_or_own_head(const ModelSpec& model, Layout& layout) {
  if (!*model.tie_embeddings) layout.rows_by_token("lm_head.weight", model.vocab, model.hidden);
}

void llama_head(const ModelSpec& model, Layout& layout) {
  layout.ones("model.norm.weight", model.hidden);
  tied_or_own_head(model, layout);
}

void gpt2_embedding(const ModelSpec& model, Layout& layout) {
  layout.rows_by_token("transformer.wte.weight", model.vocab, model.hidden);
  layout.positions("transformer.wpe.weight", model.context, model.hidden);
}

// GPT-2 keeps its matrices as [in, out] (Conv1D).
void gpt2_layer(const ModelSpec& model, std::int64_t index, Layout& layout) {
  const std::string prefix = "transformer.h." + std::to_string(index) + ".";
  layout.ones(prefix + "ln_1.weight", model.hidden);
  layout.zeros(prefix + "ln_1.bias", model.hidden);
  layout.matrix(prefix + "attn.c_attn.weight", model.hidden, 3 * model.hidden, 3);
  layout.zeros(prefix + "attn.c_attn.bias", 3 * model.hidden);
  layout.residual(prefix + "attn.c_proj.weight", model.hidden, model.hidden);
  layout.zeros(prefix + "attn.c_proj.bias", model.hidden);
  layout.ones(prefix + "ln_2.weight", model.hidden);
  layout.zeros(prefix + "ln_2.bias", model.hidden);
  layout.matrix(prefix + "mlp.c_fc.weight", model.hidden, model.ffn);
  layout.zeros(prefix + "mlp.c_fc.bias", model.ffn);
  layout.residual(prefix + "mlp.c_proj.weight", model.ffn, model.hidden);
  layout.zeros(prefix + "mlp.c_proj.bias", model.hidden);
}

void gpt2_head(const ModelSpec& model, Layout& layout) {
  layout.ones("transformer.ln_f.weight", model.hidden);
  layout.zeros("transformer.ln_f.bias", model.hidden);
  tied_or_own_head(model, layout);
}

}  // namespace

std::vector<TensorSlot> parameter_layout(const ModelSpec& model, UnitRange units) {
  const UnitRange whole = whole_model(model);
  SHOAL_CHECK(model.kv_heads > 0 && model.head_dim > 0 && model.ffn > 0 && model.tie_embeddings,
              "derived fields are not filled");
  SHOAL_CHECK(0 <= units.first && units.first < units.last && units.last <= whole.last,
              "not a range of the model's units");
  SHOAL_CHECK(!*model.tie_embeddings || units == whole, "a tied model cannot be cut");
  const bool llama = model.family == ModelFamily::kLlama;
  Layout layout(model, units);
  llama ? llama_embedding(model, layout) : gpt2_embedding(model, layout);
  for (std::int64_t i = 0; i < model.layers; ++i) {
    layout.next_unit();
    llama ? llama_layer(model, i, layout) : gpt2_layer(model, i, layout);
  }
  layout.next_unit();
  llama ? llama_head(model, layout) : gpt2_head(model, layout);
  return layout.take();
}

std::int64_t value_count(const std::vector<TensorSlot>& layout) {
  return layout.empty() ? 0 : layout.back().first + layout.back().count;
}

outer_opt::StageSizes stage_sizes(const ModelSpec& model, UnitRange units) {
  ModelSpec untied = model;  // a tied model cannot be cut, and differs in the head alone
  untied.tie_embeddings = false;
  const UnitRange whole = whole_model(model);
  outer_opt::StageSizes sizes;
  std::int64_t sum = 0;
  for (std::int32_t unit = units.first; unit < units.last && unit + 1 < whole.last; ++unit) {
    const std::int64_t values = value_count(parameter_layout(untied, {unit, unit + 1}));
    if (unit == whole.first) {
      sizes.embedding = values;
    } else {
      sizes.blocks.push_back(values);
    }
    sum += values;
  }
  sizes.head = value_count(parameter_layout(model, units)) - sum;
  return sizes;
}

std::vector<outer_opt::DecayRange> decay_ranges(const std::vector<TensorSlot>& layout) {
  std::vector<outer_opt::DecayRange> ranges;
  for (const TensorSlot& slot : layout) {
    if (ranges.empty() || ranges.back().decays != slot.decays) {
      ranges.push_back({slot.first, 0, slot.decays});
    }
    ranges.back().count += slot.count;
  }
  return ranges;
}

OptimizerLayout optimizer_layout(const std::vector<TensorSlot>& layout, Optimizer optimizer) {
  OptimizerLayout out;
  const auto append = [&](const TensorSlot& slot) {
    if (!out.adam.empty()) {
      AdamRange& last = out.adam.back();
      if (last.decays == slot.decays && last.first + last.count == slot.first) {
        last.count += slot.count;
        return;
      }
    }
    out.adam.push_back({slot.first, slot.count, slot.decays, out.second_moments});
  };
  for (const TensorSlot& slot : layout) {
    if (optimizer == Optimizer::kAdamw || slot.matrices == 0) {
      append(slot);
      out.second_moments += slot.count;
      continue;
    }
    const std::int64_t stride = slot.shape[1], columns = stride / slot.matrices;
    for (std::int64_t i = 0; i < slot.matrices; ++i) {
      out.matrices.push_back({slot.first + i * columns, slot.shape[0], columns, stride});
    }
  }
  return out;
}

void initialize(const std::vector<TensorSlot>& layout, std::uint64_t seed, std::span<float> flat) {
  for (const TensorSlot& slot : layout) {
    const auto values =
        flat.subspan(static_cast<std::size_t>(slot.first), static_cast<std::size_t>(slot.count));
    Prng prng(mix_seed(seed, slot.index));
    for (float& value : values) {
      switch (slot.initial) {
        case Initial::kNormal:
          value = static_cast<float>(prng.normal() * slot.deviation);
          break;
        case Initial::kOnes:
          value = 1;
          break;
        case Initial::kZeros:
          value = 0;
          break;
      }
    }
  }
}

}  // namespace shoal::trainer
