// The kernels on a real device against the CPU: the same bytes and bits over many blocks, with
// tails. Skipped, and said so, where no device is; lanes_test.cc checks the bodies everywhere.
#include "outer_opt/cuda/device_codec.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec.h"
#include "outer_opt/core/nesterov.h"
#include "outer_opt/core/sparse2.h"

namespace shoal::outer_opt::cuda {
namespace {

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(T) + 16), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* data() { return data_; }
  std::vector<T> back() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  const std::size_t count_;
  T* data_ = nullptr;
};

class DeviceCodecTest : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device on this machine";
  }
};

std::vector<float> normal(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.normal() * 1e-3);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

constexpr std::size_t kLengths[] = {1, 3, 127, 128, 255, 256, 257, 4099, 1'000'003};

TEST_F(DeviceCodecTest, DenseCodecsHaveTheBytesOfTheCpu) {
  for (const CodecKind kind : kDenseCodecs) {
    const Codec& cpu = codec(kind);
    for (const std::size_t n : kLengths) {
      const std::vector<float> values = normal(n, n);
      std::vector<std::byte> expected(cpu.encoded_size(n));
      cpu.encode(values, expected);
      OnDevice<float> in(values);
      OnDevice<std::byte> encoded{std::vector<std::byte>(expected.size())};
      ASSERT_TRUE(encode(kind, in.data(), n, encoded.data(), nullptr).ok());
      ASSERT_EQ(encoded.back(), expected) << to_string(kind) << ", " << n << " values";

      std::vector<float> decoded(n), sum = normal(n, n + 1);
      OnDevice<float> out(decoded), summed(sum);
      OnDevice<int> damaged(std::vector<int>{0});
      ASSERT_TRUE(cpu.decode(expected, decoded).ok());
      ASSERT_TRUE(cpu.accumulate(expected, 0.3f, sum).ok());
      ASSERT_TRUE(decode(kind, encoded.data(), n, out.data(), damaged.data(), nullptr).ok());
      ASSERT_TRUE(
          accumulate(kind, encoded.data(), n, 0.3f, summed.data(), damaged.data(), nullptr).ok());
      EXPECT_TRUE(same_bits(out.back(), decoded)) << to_string(kind) << ", " << n;
      EXPECT_TRUE(same_bits(summed.back(), sum)) << to_string(kind) << ", " << n;
      EXPECT_EQ(damaged.back()[0], 0);
    }
  }
}

TEST_F(DeviceCodecTest, WhatIsNotFiniteIsCalledDamaged) {
  for (const CodecKind kind : kDenseCodecs) {
    std::vector<float> values = normal(1000, 1);
    values[777] = -1.0f / 0.0f;
    OnDevice<float> in(values), out(values);
    OnDevice<std::byte> encoded{std::vector<std::byte>(codec(kind).encoded_size(values.size()))};
    OnDevice<int> damaged(std::vector<int>{0});
    ASSERT_TRUE(encode(kind, in.data(), values.size(), encoded.data(), nullptr).ok());
    ASSERT_TRUE(
        decode(kind, encoded.data(), values.size(), out.data(), damaged.data(), nullptr).ok());
    EXPECT_EQ(damaged.back()[0], 1) << to_string(kind);
  }
}

TEST_F(DeviceCodecTest, Sparse2HasTheBytesOfTheCpu) {
  for (const std::size_t n : kLengths) {
    const std::vector<float> values = normal(n, n);
    std::vector<std::byte> expected(sparse2_size(n));
    outer_opt::sparse2_encode(values, expected);
    OnDevice<float> in(values);
    OnDevice<std::byte> out{std::vector<std::byte>(expected.size())};
    ASSERT_TRUE(sparse2_encode(in.data(), n, out.data(), nullptr).ok());
    EXPECT_EQ(out.back(), expected) << n << " values";
  }
}

TEST_F(DeviceCodecTest, TheOuterStepHasTheBitsOfTheCpu) {
  const std::size_t n = 1'000'003;
  const OuterSpec options{0.7, 0.9};
  const std::vector<float> average = normal(n, 1);
  std::vector<float> momentum = normal(n, 2), anchor = normal(n, 3);
  OnDevice<float> d(average), m(momentum), theta(anchor);
  outer_opt::nesterov_step(options, average, momentum, anchor);
  ASSERT_TRUE(nesterov_step(options, d.data(), n, m.data(), theta.data(), nullptr).ok());
  EXPECT_TRUE(same_bits(m.back(), momentum));
  EXPECT_TRUE(same_bits(theta.back(), anchor));
}

}  // namespace
}  // namespace shoal::outer_opt::cuda
