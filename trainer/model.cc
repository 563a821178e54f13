// See model.h.
#include "trainer/model.h"

#include "base/check.h"
#include "trainer/fused_ops.h"

namespace shoal::trainer {
namespace {

constexpr double kRopeTheta = 10000.0;

// Hands out parameters in the order of the layout.
class Views {
 public:
  Views(const std::vector<TensorSlot>& layout, torch::Tensor flat, torch::Tensor gradient)
      : layout_(layout), flat_(std::move(flat)), gradient_(std::move(gradient)) {}

  torch::Tensor next() { return next_rows(1); }
  // `slots` neighbours with equal row length as one matrix.
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

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                     Cast cast) {
  return torch::addmm(cast(bias), cast(x), cast(weight));
}

torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias) {
  return torch::layer_norm(x, {x.size(1)}, weight, bias, kNormEps);
}

class LlamaBlock : public torch::nn::Module {
 public:
  explicit LlamaBlock(Views& views)
      : norm1_(register_parameter("norm1", views.next())),
        qkv_(register_parameter("qkv", views.next_rows(3))),
        out_(register_parameter("out", views.next())),
        norm2_(register_parameter("norm2", views.next())),
        gate_up_(register_parameter("gate_up", views.next_rows(2))),
        down_(register_parameter("down", views.next())) {}

  torch::Tensor forward(const torch::Tensor& input, const AttentionShape& shape,
                        const RotaryTable& rotary, Cast cast) {
    const auto attended =
        causal_attention(linear(rms_norm(input, norm1_), qkv_, cast), shape, rotary);
    const auto x = input + linear(attended, out_, cast);
    return x + linear(swiglu(linear(rms_norm(x, norm2_), gate_up_, cast)), down_, cast);
  }

 private:
  torch::Tensor norm1_, qkv_, out_, norm2_, gate_up_, down_;
};

class Llama : public Network {
 public:
  Llama(const ModelSpec& spec, Views& views, Cast cast, torch::Device device)
      : spec_(spec),
        cast_(cast),
        rotary_(rotary_table(spec.context, spec.hidden / spec.heads, kRopeTheta, device)),
        embedding_(register_parameter("embedding", views.next())) {
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      blocks_.push_back(
          register_module("block" + std::to_string(i), std::make_shared<LlamaBlock>(views)));
    }
    norm_ = register_parameter("norm", views.next());
    head_ = register_parameter("head", views.next());
  }

  torch::Tensor logits(const torch::Tensor& tokens) override {
    const AttentionShape shape{tokens.size(0), tokens.size(1), spec_.heads, spec_.kv_heads,
                               spec_.hidden / spec_.heads};
    auto x = torch::embedding(embedding_, tokens.reshape({-1}));
    for (const auto& block : blocks_) x = block->forward(x, shape, rotary_, cast_);
    return linear(rms_norm(x, norm_), head_, cast_);
  }

 private:
  ModelSpec spec_;
  Cast cast_;
  RotaryTable rotary_;
  torch::Tensor embedding_, norm_, head_;
  std::vector<std::shared_ptr<LlamaBlock>> blocks_;
};

class Gpt2Block : public torch::nn::Module {
 public:
  explicit Gpt2Block(Views& views)
      : norm1_(register_parameter("norm1", views.next())),
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
    const auto qkv = affine(layer_norm(input, norm1_, norm1_bias_), qkv_, qkv_bias_, cast);
    const auto x = input + affine(causal_attention(qkv, shape, {}), out_, out_bias_, cast);
    const auto up = affine(layer_norm(x, norm2_, norm2_bias_), up_, up_bias_, cast);
    return x + affine(gelu_tanh(up), down_, down_bias_, cast);
  }

 private:
  torch::Tensor norm1_, norm1_bias_, qkv_, qkv_bias_, out_, out_bias_;
  torch::Tensor norm2_, norm2_bias_, up_, up_bias_, down_, down_bias_;
};

class Gpt2 : public Network {
 public:
  Gpt2(const ModelSpec& spec, Views& views, Cast cast)
      : spec_(spec),
        cast_(cast),
        embedding_(register_parameter("embedding", views.next())),
        positions_(register_parameter("positions", views.next())) {
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      blocks_.push_back(
          register_module("block" + std::to_string(i), std::make_shared<Gpt2Block>(views)));
    }
    norm_ = register_parameter("norm", views.next());
    norm_bias_ = register_parameter("norm_bias", views.next());
  }

  torch::Tensor logits(const torch::Tensor& tokens) override {
    const std::int64_t batch = tokens.size(0), length = tokens.size(1);
    const AttentionShape shape{batch, length, spec_.heads, spec_.heads, spec_.hidden / spec_.heads};
    auto x = (torch::embedding(embedding_, tokens) + positions_.narrow(0, 0, length))
                 .view({batch * length, spec_.hidden});
    for (const auto& block : blocks_) x = block->forward(x, shape, cast_);
    return linear(layer_norm(x, norm_, norm_bias_), embedding_, cast_);
  }

 private:
  ModelSpec spec_;
  Cast cast_;
  torch::Tensor embedding_, positions_, norm_, norm_bias_;
  std::vector<std::shared_ptr<Gpt2Block>> blocks_;
};

std::shared_ptr<Network> make_network(const ModelSpec& spec, Views& views, Cast cast,
                                      torch::Device device) {
  if (spec.family == ModelFamily::kLlama) return std::make_shared<Llama>(spec, views, cast, device);
  return std::make_shared<Gpt2>(spec, views, cast);
}

}  // namespace

Model::Model(const ModelSpec& spec, Precision precision, torch::Device device)
    : layout_(parameter_layout(spec)) {
  const std::int64_t values = layout_.back().first + layout_.back().count;
  SHOAL_CHECK(values == parameter_count(spec), "layout and parameter_count() disagree");
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  flat_ = torch::zeros({values}, options);
  flat_gradient_ = torch::zeros({values}, options);
  Views views(layout_, flat_, flat_gradient_);
  network_ = make_network(spec, views, Cast{precision == Precision::kBf16}, device);
  SHOAL_CHECK(views.done(), "the layout has more parameters than its network");
}

torch::Tensor Model::loss(const torch::Tensor& tokens, const torch::Tensor& targets,
                          double factor) {
  return cross_entropy(network_->logits(tokens), targets.reshape({-1}), factor);
}

}  // namespace shoal::trainer
