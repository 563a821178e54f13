// The local parameters of a simulated replica. An inner step moves every value by an amount that
// follows from the seed and the sequence's number, so what a replica holds can be told from what it
// trained; sums of them depend on their order, as real ones do. With ddp the steps add up in the
// gradient instead.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "replica/core/local_parameters.h"

namespace shoal::sim {

class SimulatedParameters final : public replica::LocalParameters {
 public:
  SimulatedParameters(std::vector<float> values, bool keeps_gradient)
      : values_(std::move(values)), gradient_(keeps_gradient ? values_.size() : 0) {}

  std::int64_t value_count() const override { return static_cast<std::int64_t>(values_.size()); }
  void read_parameters(std::span<float> out) const override { read(values_, out); }
  bool reads_parts() const override { return true; }
  void read_part(std::int64_t first, std::span<float> out) const override {
    read(std::span(values_).subspan(static_cast<std::size_t>(first), out.size()), out);
  }
  void write_parameters(std::span<const float> in) override {
    values_.assign(in.begin(), in.end());
  }
  void read_gradient(std::span<float> out) const override { read(gradient_, out); }
  void clear_gradient() override { std::fill(gradient_.begin(), gradient_.end(), 0.0f); }

  // One sequence of an inner step; `move(i)` is what it does to value i.
  template <typename Move>
  void train(const Move& move) {
    for (std::size_t i = 0; i < gradient_.size(); ++i) gradient_[i] += move(i);
    if (!gradient_.empty()) return;
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] -= move(i);
  }
  // The next time that they are read, one value is not finite.
  void poison() { poisoned_ = true; }
  const std::vector<float>& values() const { return values_; }

 private:
  void read(std::span<const float> from, std::span<float> out) const {
    std::copy(from.begin(), from.end(), out.begin());
    if (std::exchange(poisoned_, false)) out[0] = std::numeric_limits<float>::quiet_NaN();
  }

  std::vector<float> values_, gradient_;
  mutable bool poisoned_ = false;
};

}  // namespace shoal::sim
