// A vector of float32 that a session reads: values that lie somewhere, or that are made run by run
// when they are wanted, so that nobody needs memory for all of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace shoal::outer_opt {

class VectorSource {
 public:
  // Fills `out` with the values from number `first` on, the same ones each time. Called by any
  // thread, by several at once.
  using Read = std::function<void(std::int64_t first, std::span<float> out)>;

  VectorSource() = default;
  // The values outlive the source.
  template <std::convertible_to<std::span<const float>> Values>
  VectorSource(const Values& values) : values_(values), count_(values_.size()) {}
  VectorSource(std::size_t count, Read read) : count_(count), read_(std::move(read)) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  // All of them where they lie; empty: they are made when they are read.
  std::span<const float> in_place() const { return values_; }
  void read(std::int64_t first, std::span<float> out) const;
  // scratch.size() values from `first` on: where they lie, or in `scratch`.
  std::span<const float> run(std::int64_t first, std::span<float> scratch) const;
  std::vector<float> copy() const;

 private:
  std::span<const float> values_;
  std::size_t count_ = 0;
  Read read_;  // null: values_ are there
};

}  // namespace shoal::outer_opt
