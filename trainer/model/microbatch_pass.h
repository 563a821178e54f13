// Forward and backward passes of a whole model over the microbatches of an inner step. Gradients
// and losses add up on the device; nothing waits for it but loss().
//
// Full microbatches are captured where the device can: the first one is computed eagerly, which is
// its result, and then captured and launched once more. The capture is used from then on if its
// loss and the norm of its gradient are the same as the eager ones, up to the rounding of sums in
// another order. If they are not, or if the capture fails, every pass stays eager, and a line on
// stderr says why. One thread.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/model/captured_work.h"
#include "trainer/model/model.h"

namespace shoal::trainer {

class MicrobatchPass {
 public:
  // `model` outlives it. A full microbatch has `sequences` sequences; the loss of a token counts
  // `factor`. `make` empty: every pass is eager.
  MicrobatchPass(Model& model, std::int64_t sequences, double factor, MakeCapturedWork make);
  ~MicrobatchPass();

  void begin();  // the model's gradient and the loss become zero

  // Adds the passes over `tokens`, [sequences, context + 1] int64 in host memory. Of pinned memory
  // the copy is only queued. Throws what libtorch throws.
  void add(const torch::Tensor& tokens);

  double loss() const;  // since begin(); waits for the device

  // Gives up the captured work and its memory; further passes are eager. False: there was none.
  bool release();

 private:
  void run(const torch::Tensor& tokens);
  void run_eagerly(const torch::Tensor& tokens);
  void try_capture(const torch::Tensor& tokens);
  bool captures_the_same(const torch::Tensor& tokens);

  Model& model_;
  const std::int64_t sequences_;
  const double factor_;
  MakeCapturedWork make_;
  torch::Tensor loss_;   // a scalar on the device
  torch::Tensor input_;  // of the captured work, on the device
  std::unique_ptr<CapturedWork> captured_;
  bool fresh_ = false;  // nothing was added since begin()
};

}  // namespace shoal::trainer
