// A language model that is small enough to train for 500 rounds in seconds: a character is
// predicted from the eight before it by embeddings, two tanh layers, the second with a residual,
// and a softmax (Bengio et al. 2003), 14,000 parameters in all. Gradients are written out by hand,
// so nothing but this file is needed. It is not a model of the product: it is what a property of
// the *outer* step can be tried on at every length of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"

namespace shoal::bench {

inline constexpr std::size_t kSmallContext = 8, kSmallSymbols = 80, kSmallBatch = 16;

// Where in the text the characters of a batch begin; each takes kSmallContext + 1 symbols.
using Places = std::vector<std::size_t>;

class SmallModel {
 public:
  explicit SmallModel(std::vector<std::uint8_t> text);  // symbols below kSmallSymbols

  static std::size_t parameter_count();
  static std::vector<float> initial(std::uint64_t seed);

  // Mean loss in nats per symbol. `gradient` is overwritten; empty: it is not wanted.
  double loss(std::span<const float> parameters, const Places& places, std::span<float> gradient);

  // Places of a batch of the training text, and the loss on the held-out tenth at its end.
  Places draw(Prng& prng) const;
  double held_out_loss(std::span<const float> parameters);

 private:
  void forward(std::span<const float> parameters, const Places& places);
  double softmax(const Places& places);
  void backward(std::span<const float> parameters, const Places& places, std::span<float> gradient);

  std::vector<std::uint8_t> text_;
  std::size_t trained_;  // symbols before the held-out ones
  std::vector<float> inputs_, first_, second_, hidden_, logits_;  // one row per place
};

}  // namespace shoal::bench
