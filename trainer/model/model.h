// The two model families, as a stage of any range of units, over one flat fp32 vector. Every
// parameter is a view into `flat`, its gradient a view into `flat_gradient`; anchors,
// pseudo-gradients, AdamW and checkpoints treat them as plain spans in the order of
// parameter_layout(). With bf16 the weights are cast where a matrix product uses them; the residual
// stream, norms and the loss stay fp32.
//
// llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU; no biases, or those of q, k
// and v (Qwen2). gpt2: learned positions, LayerNorm, GELU (tanh), biases.
//
// One thread at a time. libtorch's exceptions pass through (torch_bridge.h names them).
#pragma once

#include <memory>
#include <vector>

#include "job/job_spec.h"
#include "trainer/model/torch_pch.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {

// The network alone. Its input: tokens [batch, length] int64 where the range begins with the
// embedding, else the residual stream [batch, length, hidden]; length <= context. Its output: the
// residual stream [batch * length, hidden].
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor hidden(const torch::Tensor& input) = 0;
  // The head, where the range ends with it: [rows, hidden] -> [rows, vocab].
  virtual torch::Tensor head(const torch::Tensor& hidden) = 0;
  // From now on the backward pass computes each block once more (recompute.h).
  virtual void recompute_blocks() = 0;
};

class Model {
 public:
  // Derived fields of `spec` must be filled. Parameters and gradients start as zeros.
  Model(const ModelSpec& spec, UnitRange units, Precision precision, torch::Device device);
  // A whole model that only answers, in fp32 on the device of `weights`, which become flat(). It
  // has no gradients.
  Model(const ModelSpec& spec, torch::Tensor weights);

  bool has_embedding() const { return units_.first == 0; }
  bool has_head() const { return units_.last == whole_.last; }

  torch::Tensor hidden(const torch::Tensor& input) { return network_->hidden(input); }
  torch::Tensor logits(const torch::Tensor& input);  // [batch * length, vocab]; needs the head
  // factor * sum of the cross-entropies of `targets` [batch, length], in nats; a scalar.
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& targets, double factor);

  torch::Tensor& flat() { return flat_; }                    // [values], on the device
  torch::Tensor& flat_gradient() { return flat_gradient_; }  // backward() adds to it
  const std::vector<TensorSlot>& layout() const { return layout_; }
  Network& network() { return *network_; }

 private:
  void build(const ModelSpec& spec, Precision precision);

  UnitRange units_, whole_;
  std::vector<TensorSlot> layout_;
  torch::Tensor flat_, flat_gradient_;
  std::shared_ptr<Network> network_;
};

}  // namespace shoal::trainer
