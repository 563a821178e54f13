// The two model families over one flat fp32 vector. Every parameter is a view into `flat`, its
// gradient a view into `flat_gradient`; anchors, pseudo-gradients, AdamW and checkpoints treat them
// as plain spans in the order of parameter_layout(). With bf16 the weights are cast where a matrix
// product uses them; the residual stream, norms and the loss stay fp32.
//
// llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, untied head, no biases.
// gpt2: learned positions, LayerNorm, GELU (tanh), biases, the head tied to the embedding.
//
// One thread at a time. libtorch's exceptions pass through (torch_bridge.h names them).
#pragma once

#include <memory>
#include <vector>

#include "base/job_spec.h"
#include "trainer/parameter_layout.h"
#include "trainer/torch_pch.h"

namespace shoal::trainer {

// The network alone: tokens in, logits out.
class Network : public torch::nn::Module {
 public:
  // tokens: [batch, length] int64, length <= context. Returns [batch * length, vocab].
  virtual torch::Tensor logits(const torch::Tensor& tokens) = 0;
};

class Model {
 public:
  // Derived fields of `spec` must be filled. Parameters and gradients start as zeros.
  Model(const ModelSpec& spec, Precision precision, torch::Device device);

  torch::Tensor logits(const torch::Tensor& tokens) { return network_->logits(tokens); }
  // factor * sum of the cross-entropies of `targets` [batch, length], in nats; a scalar.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets, double factor);

  torch::Tensor& flat() { return flat_; }                    // [values], on the device
  torch::Tensor& flat_gradient() { return flat_gradient_; }  // backward() adds to it
  const std::vector<TensorSlot>& layout() const { return layout_; }
  Network& network() { return *network_; }

 private:
  std::vector<TensorSlot> layout_;
  torch::Tensor flat_, flat_gradient_;
  std::shared_ptr<Network> network_;
};

}  // namespace shoal::trainer
