// See model.h.
#include "trainer/model/model.h"

#include "base/check.h"
#include "trainer/model/fused_ops.h"
#include "trainer/model/recompute.h"
#include "trainer/plain/rope.h"

namespace shoal::trainer {
namespace {

// Hands out parameters in the order of the layout; without a gradient they have none.
class Views {
 public:
  Views(const std::vector<TensorSlot>& layout, torch::Tensor flat, torch::Tensor gradient)
      : layout_(layout), flat_(std::move(flat)), gradient_(std::move(gradient)) {}

  torch::Tensor next() { return next_rows(1); }
  // `slots` neighbors with equal row length as one matrix.
  torch::Tensor next_rows(std::size_t slots) {
    SHOAL_CHECK(next_ + slots <= layout_.size(), "the network has more parameters than its layout");
    const TensorSlot& first = layout_[next_];
    std::vector<std::int64_t> shape = first.shape;
    std::int64_t count = 0, rows = 0;
    for (std::size_t i = 0; i < slots; ++i) {
      count += layout_[next_ + i].count;
      rows += layout_[next_ + i].shape[0];
    }
    shape[0] = rows;
    next_ += slots;
    auto view = flat_.narrow(0, first.first, count).view(shape).detach();
    if (!gradient_.defined()) return view;
    view.set_requires_grad(true);
    view.mutable_grad() = gradient_.narrow(0, first.first, count).view(shape);
    return view;
  }
  bool done() const { return next_ == layout_.size(); }

 private:
  const std::vector<TensorSlot>& layout_;
  torch::Tensor flat_, gradient_;
  std::size_t next_ = 0;
};

struct Cast {
  bool bf16 = false;
  torch::Tensor operator()(const torch::Tensor& x) const {
    return bf16 ? x.to(torch::kBFloat16) : x;
  }
};

torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight, Cast cast) {
  return torch::mm(cast(x), cast(weight).t());
}

// As linear(), plus a bias per column of the result where there is one.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                     Cast cast) {
  return bias.defined() ? torch::addmm(cast(bias), cast(x), cast(weight).t())
                        : linear(x, weight, cast);
}

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                     Cast cast) {
  return torch::addmm(cast(bias), cast(x), cast(weight));
}

torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, double eps) {
  return torch::layer_norm(x, {x.size(1)}, weight, bias, eps);
}

class LlamaBlock : public torch::nn::Module {
 public:
  LlamaBlock(const ModelSpec& spec, Views& views)
      : eps_(spec.norm_eps),
        norm1_(register_parameter("norm1", views.next())),
        qkv_(register_parameter("qkv", views.next_rows(3))),
        qkv_bias_(spec.qkv_bias ? register_parameter("qkv_bias", views.next_rows(3))
                                : torch::Tensor()),
        out_(register_parameter("out", views.next())),
        norm2_(register_parameter("norm2", views.next())),
        gate_up_(register_parameter("gate_up", views.next_rows(2))),
        down_(register_parameter("down", views.next())) {}

  torch::Tensor forward(const torch::Tensor& input, const AttentionShape& shape,
                        const RotaryTable& rotary, Cast cast) {
    const auto qkv = linear(rms_norm(input, norm1_, eps_), qkv_, qkv_bias_, cast);
    const auto x = input + linear(causal_attention(qkv, shape, rotary), out_, cast);
    return x + linear(swiglu(linear(rms_norm(x, norm2_, eps_), gate_up_, cast)), down_, cast);
  }

 private:
  double eps_;
  torch::Tensor norm1_, qkv_, qkv_bias_, out_, norm2_, gate_up_, down_;
};

// What both families do with a range: which units there are, and the blocks one after the other.
template <typename Block>
class StageNetwork : public Network {
 public:
  StageNetwork(const ModelSpec& spec, UnitRange units, Cast cast)
      : spec_(spec), units_(units), whole_(whole_model(spec)), cast_(cast) {}

  void recompute_blocks() override { recompute_ = true; }

 protected:
  bool has_embedding() const { return units_.first == 0; }
  bool has_head() const { return units_.last == whole_.last; }
  void add_blocks(Views& views) {
    for (std::int32_t unit = units_.first; unit < units_.last; ++unit) {
      if (unit == 0 || unit == whole_.last - 1) continue;
      blocks_.push_back(register_module("block" + std::to_string(unit - 1),
                                        std::make_shared<Block>(spec_, views)));
    }
  }
  // The tied head is the embedding itself.
  torch::Tensor add_head(Views& views, const torch::Tensor& embedding) {
    return *spec_.tie_embeddings ? embedding : register_parameter("head", views.next());
  }
  // `forward`: of one block. It may be called again when the call of the network is over.
  template <typename BlockForward>
  torch::Tensor through_blocks(torch::Tensor x, const BlockForward& forward) const {
    for (const auto& block : blocks_) {
      const Forward one = [forward, block](const torch::Tensor& input) {
        return forward(*block, input);
      };
      x = recompute_ ? recomputed(one, x) : one(x);
    }
    return x;
  }
  AttentionShape shape_of(const torch::Tensor& input) const {
    return {input.size(0), input.size(1), spec_.heads, spec_.kv_heads, spec_.head_dim};
  }

  ModelSpec spec_;
  UnitRange units_, whole_;
  Cast cast_;
  std::vector<std::shared_ptr<Block>> blocks_;
  bool recompute_ = false;
};

class Llama : public StageNetwork<LlamaBlock> {
 public:
  Llama(const ModelSpec& spec, UnitRange units, Views& views, Cast cast, torch::Device device)
      : StageNetwork(spec, units, cast),
        rotary_(rotary_table(spec.context, rope_frequencies(spec.rope, spec.head_dim), device)) {
    if (has_embedding()) embedding_ = register_parameter("embedding", views.next());
    add_blocks(views);
    if (!has_head()) return;
    norm_ = register_parameter("norm", views.next());
    head_ = add_head(views, embedding_);
  }

  torch::Tensor hidden(const torch::Tensor& input) override {
    const AttentionShape shape = shape_of(input);
    auto x = has_embedding() ? torch::embedding(embedding_, input.reshape({-1}))
                             : input.view({-1, spec_.hidden});
    return through_blocks(x, [this, shape](LlamaBlock& block, const torch::Tensor& input) {
      return block.forward(input, shape, rotary_, cast_);
    });
  }
  torch::Tensor head(const torch::Tensor& hidden) override {
    return linear(rms_norm(hidden, norm_, spec_.norm_eps), head_, cast_);
  }

 private:
  RotaryTable rotary_;
  torch::Tensor embedding_, norm_, head_;
};

class Gpt2Block : public torch::nn::Module {
 public:
  Gpt2Block(const ModelSpec& spec, Views& views)
      : eps_(spec.norm_eps),
        norm1_(register_parameter("norm1", views.next())),
        norm1_bias_(register_parameter("norm1_bias", views.next())),
        qkv_(register_parameter("qkv", views.next())),
        qkv_bias_(register_parameter("qkv_bias", views.next())),
        out_(register_parameter("out", views.next())),
        out_bias_(register_parameter("out_bias", views.next())),
        norm2_(register_parameter("norm2", views.next())),
        norm2_bias_(register_parameter("norm2_bias", views.next())),
        up_(register_parameter("up", views.next())),
        up_bias_(register_parameter("up_bias", views.next())),
        down_(register_parameter("down", views.next())),
        down_bias_(register_parameter("down_bias", views.next())) {}

  torch::Tensor forward(const torch::Tensor& input, const AttentionShape& shape, Cast cast) {
    const auto qkv = affine(layer_norm(input, norm1_, norm1_bias_, eps_), qkv_, qkv_bias_, cast);
    const auto x = input + affine(causal_attention(qkv, shape, {}), out_, out_bias_, cast);
    const auto up = affine(layer_norm(x, norm2_, norm2_bias_, eps_), up_, up_bias_, cast);
    return x + affine(gelu_tanh(up), down_, down_bias_, cast);
  }

 private:
  double eps_;
  torch::Tensor norm1_, norm1_bias_, qkv_, qkv_bias_, out_, out_bias_;
  torch::Tensor norm2_, norm2_bias_, up_, up_bias_, down_, down_bias_;
};

class Gpt2 : public StageNetwork<Gpt2Block> {
 public:
  Gpt2(const ModelSpec& spec, UnitRange units, Views& views, Cast cast)
      : StageNetwork(spec, units, cast) {
    if (has_embedding()) {
      embedding_ = register_parameter("embedding", views.next());
      positions_ = register_parameter("positions", views.next());
    }
    add_blocks(views);
    if (!has_head()) return;
    norm_ = register_parameter("norm", views.next());
    norm_bias_ = register_parameter("norm_bias", views.next());
    head_ = add_head(views, embedding_);
  }

  torch::Tensor hidden(const torch::Tensor& input) override {
    const AttentionShape shape = shape_of(input);
    auto x = has_embedding()
                 ? torch::embedding(embedding_, input) + positions_.narrow(0, 0, shape.tokens)
                 : input;
    x = x.view({-1, spec_.hidden});
    return through_blocks(x, [this, shape](Gpt2Block& block, const torch::Tensor& input) {
      return block.forward(input, shape, cast_);
    });
  }
  torch::Tensor head(const torch::Tensor& hidden) override {
    return linear(layer_norm(hidden, norm_, norm_bias_, spec_.norm_eps), head_, cast_);
  }

 private:
  torch::Tensor embedding_, positions_, norm_, norm_bias_, head_;
};

std::shared_ptr<Network> make_network(const ModelSpec& spec, UnitRange units, Views& views,
                                      Cast cast, torch::Device device) {
  if (spec.family == ModelFamily::kLlama) {
    return std::make_shared<Llama>(spec, units, views, cast, device);
  }
  return std::make_shared<Gpt2>(spec, units, views, cast);
}

}  // namespace

Model::Model(const ModelSpec& spec, UnitRange units, Precision precision, torch::Device device)
    : units_(units), whole_(whole_model(spec)), layout_(parameter_layout(spec, units)) {
  const std::int64_t values = value_count(layout_);
  SHOAL_CHECK(units != whole_ || values == parameter_count(spec),
              "layout and parameter_count() disagree");
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  flat_ = torch::zeros({values}, options);
  flat_gradient_ = torch::zeros({values}, options);
  build(spec, precision);
}

Model::Model(const ModelSpec& spec, torch::Tensor weights)
    : units_(whole_model(spec)),
      whole_(units_),
      layout_(parameter_layout(spec, units_)),
      flat_(std::move(weights)) {
  SHOAL_CHECK(flat_.numel() == value_count(layout_), "weights of another model");
  build(spec, Precision::kFp32);
}

void Model::build(const ModelSpec& spec, Precision precision) {
  Views views(layout_, flat_, flat_gradient_);
  network_ = make_network(spec, units_, views, Cast{precision == Precision::kBf16}, flat_.device());
  SHOAL_CHECK(views.done(), "the layout has more parameters than its network");
}

torch::Tensor Model::logits(const torch::Tensor& input) {
  SHOAL_CHECK(has_head(), "this stage has no head");
  return network_->head(network_->hidden(input));
}

torch::Tensor Model::loss(const torch::Tensor& input, const torch::Tensor& targets, double factor) {
  return cross_entropy(logits(input), targets.reshape({-1}), factor);
}

}  // namespace shoal::trainer
