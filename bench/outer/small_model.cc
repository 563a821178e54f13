// See small_model.h. Rows of a batch lie one after the other; a matrix of a layer has one row per
// input.
#include "bench/outer/small_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace shoal::bench {
namespace {

constexpr std::size_t kWidth = 64, kEmbedding = 16, kInputs = kSmallContext * kEmbedding;
constexpr std::size_t kBatch = kSmallBatch;
constexpr std::size_t kHeldOutBatches = 250;

// Where each tensor begins in the vector of all parameters.
constexpr std::size_t kFirst = kSmallSymbols * kEmbedding;  // after the embeddings
constexpr std::size_t kFirstBias = kFirst + kInputs * kWidth;
constexpr std::size_t kSecond = kFirstBias + kWidth;
constexpr std::size_t kSecondBias = kSecond + kWidth * kWidth;
constexpr std::size_t kHead = kSecondBias + kWidth;
constexpr std::size_t kHeadBias = kHead + kWidth * kSmallSymbols;
constexpr std::size_t kAll = kHeadBias + kSmallSymbols;

// out = in * matrix + bias
template <std::size_t kIn, std::size_t kOut>
void affine(const float* in, const float* matrix, const float* bias, float* out) {
  for (std::size_t row = 0; row < kBatch; ++row, in += kIn, out += kOut) {
    std::array<float, kOut> sum;
    std::copy_n(bias, kOut, sum.begin());
    for (std::size_t i = 0; i < kIn; ++i) {
      for (std::size_t j = 0; j < kOut; ++j) sum[j] += in[i] * matrix[i * kOut + j];
    }
    std::copy(sum.begin(), sum.end(), out);
  }
}

// Adds to the gradients of matrix and bias; writes that of `in`. Sums run in eight lanes.
template <std::size_t kIn, std::size_t kOut>
void affine_back(const float* in, const float* matrix, const float* of_out, float* of_matrix,
                 float* of_bias, float* of_in) {
  constexpr std::size_t kLanes = 8;
  static_assert(kOut % kLanes == 0);
  for (std::size_t row = 0; row < kBatch; ++row, in += kIn, of_out += kOut, of_in += kIn) {
    for (std::size_t j = 0; j < kOut; ++j) of_bias[j] += of_out[j];
    for (std::size_t i = 0; i < kIn; ++i) {
      std::array<float, kLanes> lanes{};
      for (std::size_t j = 0; j < kOut; ++j) of_matrix[i * kOut + j] += in[i] * of_out[j];
      for (std::size_t j = 0; j < kOut; j += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          lanes[lane] += matrix[i * kOut + j + lane] * of_out[j + lane];
        }
      }
      of_in[i] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                 ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    }
  }
}

void draw_tensor(std::span<float> values, double deviation, Prng& prng) {
  for (float& value : values) value = static_cast<float>(deviation * prng.normal());
}

}  // namespace

SmallModel::SmallModel(std::vector<std::uint8_t> text)
    : text_(std::move(text)),
      trained_(text_.size() / 10 * 9),
      inputs_(kBatch * kInputs),
      first_(kBatch * kWidth),
      second_(kBatch * kWidth),
      hidden_(kBatch * kWidth),
      logits_(kBatch * kSmallSymbols) {
  SHOAL_CHECK(text_.size() >= 1000);
  for (const std::uint8_t symbol : text_) SHOAL_CHECK(symbol < kSmallSymbols);
}

std::size_t SmallModel::parameter_count() { return kAll; }

std::vector<float> SmallModel::initial(std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> all(kAll, 0.0f);
  const std::span<float> values(all);
  draw_tensor(values.first(kFirst), 0.3, prng);
  draw_tensor(values.subspan(kFirst, kInputs * kWidth), 1 / std::sqrt(kInputs), prng);
  draw_tensor(values.subspan(kSecond, kWidth * kWidth), 1 / std::sqrt(kWidth), prng);
  draw_tensor(values.subspan(kHead, kWidth * kSmallSymbols), 0.5 / std::sqrt(kWidth), prng);
  return all;
}

double SmallModel::loss(std::span<const float> parameters, const Places& places,
                        std::span<float> gradient) {
  SHOAL_CHECK(parameters.size() == kAll && places.size() == kBatch);
  forward(parameters, places);
  const double mean = softmax(places);
  if (!gradient.empty()) backward(parameters, places, gradient);
  return mean;
}

void SmallModel::forward(std::span<const float> parameters, const Places& places) {
  const float* p = parameters.data();
  for (std::size_t row = 0; row < kBatch; ++row) {
    for (std::size_t c = 0; c < kSmallContext; ++c) {
      std::copy_n(p + text_[places[row] + c] * kEmbedding, kEmbedding,
                  inputs_.begin() + static_cast<std::ptrdiff_t>(row * kInputs + c * kEmbedding));
    }
  }
  affine<kInputs, kWidth>(inputs_.data(), p + kFirst, p + kFirstBias, first_.data());
  for (float& value : first_) value = std::tanh(value);
  affine<kWidth, kWidth>(first_.data(), p + kSecond, p + kSecondBias, second_.data());
  for (std::size_t i = 0; i < hidden_.size(); ++i) {
    second_[i] = std::tanh(second_[i]);
    hidden_[i] = first_[i] + second_[i];
  }
  affine<kWidth, kSmallSymbols>(hidden_.data(), p + kHead, p + kHeadBias, logits_.data());
}

// Logits become probabilities.
double SmallModel::softmax(const Places& places) {
  double sum_of_losses = 0;
  for (std::size_t row = 0; row < kBatch; ++row) {
    const std::span<float> logits(logits_.data() + row * kSmallSymbols, kSmallSymbols);
    const float most = *std::max_element(logits.begin(), logits.end());
    float sum = 0;
    for (float& value : logits) sum += value = std::exp(value - most);
    for (float& value : logits) value /= sum;
    sum_of_losses -= std::log(logits[text_[places[row] + kSmallContext]] + 1e-20);
  }
  return sum_of_losses / kBatch;
}

void SmallModel::backward(std::span<const float> parameters, const Places& places,
                          std::span<float> gradient) {
  const float* p = parameters.data();
  float* g = gradient.data();
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (std::size_t row = 0; row < kBatch; ++row) {
    logits_[row * kSmallSymbols + text_[places[row] + kSmallContext]] -= 1;
  }
  for (float& value : logits_) value /= kBatch;
  std::array<float, kBatch * kWidth> of_hidden, of_second, of_first;
  std::array<float, kBatch * kInputs> of_inputs;
  affine_back<kWidth, kSmallSymbols>(hidden_.data(), p + kHead, logits_.data(), g + kHead,
                                     g + kHeadBias, of_hidden.data());
  for (std::size_t i = 0; i < of_second.size(); ++i) {
    of_second[i] = of_hidden[i] * (1 - second_[i] * second_[i]);
  }
  affine_back<kWidth, kWidth>(first_.data(), p + kSecond, of_second.data(), g + kSecond,
                              g + kSecondBias, of_first.data());
  for (std::size_t i = 0; i < of_first.size(); ++i) {
    of_first[i] = (of_first[i] + of_hidden[i]) * (1 - first_[i] * first_[i]);
  }
  affine_back<kInputs, kWidth>(inputs_.data(), p + kFirst, of_first.data(), g + kFirst,
                               g + kFirstBias, of_inputs.data());
  for (std::size_t i = 0; i < of_inputs.size(); ++i) {
    const std::size_t row = i / kInputs, c = i % kInputs / kEmbedding;
    g[text_[places[row] + c] * kEmbedding + i % kEmbedding] += of_inputs[i];
  }
}

Places SmallModel::draw(Prng& prng) const {
  Places places(kBatch);
  for (std::size_t& place : places) place = prng.below(trained_ - kSmallContext);
  return places;
}

double SmallModel::held_out_loss(std::span<const float> parameters) {
  const std::size_t span = text_.size() - trained_ - kSmallContext - 1;
  double sum = 0;
  for (std::size_t batch = 0; batch < kHeldOutBatches; ++batch) {
    Places places(kBatch);
    for (std::size_t row = 0; row < kBatch; ++row) {
      places[row] = trained_ + (batch * kBatch + row) * span / (kHeldOutBatches * kBatch);
    }
    sum += loss(parameters, places, {});
  }
  return sum / kHeldOutBatches;
}

}  // namespace shoal::bench
