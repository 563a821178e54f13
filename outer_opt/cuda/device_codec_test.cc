// The kernels on a real device against the CPU: the same bytes and bits over many blocks, with
// tails. Skipped, and said so, where no device is; lanes_test.cc checks the bodies everywhere.
#include "outer_opt/cuda/device_codec.h"

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/nesterov.h"

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

// All sorts of values: not finite, denormals, what fp16 cannot hold or rounds to a denormal.
TEST_F(DeviceCodecTest, FormatsWithoutBlocksHaveTheBytesOfTheCpuForAllSortsOfBits) {
  std::vector<float> values(2'000'000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = float_of(static_cast<std::uint32_t>(i * 2147));
  }
  for (const CodecKind kind : {CodecKind::kFp32, CodecKind::kFp16, CodecKind::kBf16}) {
    std::vector<std::byte> expected(codec(kind).encoded_size(values.size()));
    codec(kind).encode(values, expected);
    OnDevice<float> in(values);
    OnDevice<std::byte> encoded{std::vector<std::byte>(expected.size())};
    ASSERT_TRUE(encode(kind, in.data(), values.size(), encoded.data(), nullptr).ok());
    EXPECT_EQ(encoded.back(), expected) << to_string(kind);
  }
}

// Ties, and chunks whose sums depend on their order, too.
std::vector<float> odd_values(std::size_t n) {
  Prng prng(n);
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = i / 4096 % 2 == 0 ? static_cast<float>(prng.range(-2, 2))
                                  : std::ldexp(1.1f, static_cast<int>(prng.range(-80, 80)));
  }
  return values;
}

TEST_F(DeviceCodecTest, Sparse2HasTheBytesOfTheCpu) {
  std::vector<std::vector<float>> samples{odd_values(100'000)};
  for (const std::size_t n : kLengths) samples.push_back(normal(n, n));
  for (const std::vector<float>& values : samples) {
    const std::size_t n = values.size();
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

// Vectors of a fragment may begin anywhere, each at another place.
TEST_F(DeviceCodecTest, TheOuterStepNeedsNoAlignment) {
  const std::size_t n = 5000;
  const OuterSpec options{0.7, 0.9};
  const std::vector<float> average = normal(n, 1);
  std::vector<float> momentum = normal(n + 3, 2), anchor = normal(n + 3, 3);
  OnDevice<float> d(average), m(momentum), theta(anchor);
  outer_opt::nesterov_step(options, average, std::span(momentum).subspan(3, n),
                           std::span(anchor).subspan(2, n));
  ASSERT_TRUE(nesterov_step(options, d.data(), n, m.data() + 3, theta.data() + 2, nullptr).ok());
  EXPECT_TRUE(same_bits(m.back(), momentum));
  EXPECT_TRUE(same_bits(theta.back(), anchor));
}

// The part of a vector that a member owns may begin anywhere.
TEST_F(DeviceCodecTest, ValuesNeedNoAlignment) {
  const std::size_t n = 5000;
  const std::vector<float> values = normal(n + 3, 4);
  for (const CodecKind kind : kDenseCodecs) {
    for (std::size_t first = 1; first <= 3; ++first) {
      const std::span<const float> part = std::span(values).subspan(first, n);
      std::vector<std::byte> expected(codec(kind).encoded_size(n));
      codec(kind).encode(part, expected);
      std::vector<float> sum = normal(n + 3, 5);
      OnDevice<float> in(values), summed(sum);
      OnDevice<int> damaged(std::vector<int>{0});
      OnDevice<std::byte> encoded{std::vector<std::byte>(expected.size())};
      ASSERT_TRUE(encode(kind, in.data() + first, n, encoded.data(), nullptr).ok());
      EXPECT_EQ(encoded.back(), expected) << to_string(kind) << ", from " << first;
      ASSERT_TRUE(codec(kind).accumulate(expected, 0.7f, std::span(sum).subspan(first, n)).ok());
      ASSERT_TRUE(
          accumulate(kind, encoded.data(), n, 0.7f, summed.data() + first, damaged.data(), nullptr)
              .ok());
      EXPECT_TRUE(same_bits(summed.back(), sum)) << to_string(kind) << ", from " << first;
    }
  }
}

TEST_F(DeviceCodecTest, StatisticsAreThoseOfTheValues) {
  std::vector<float> values = normal(1'000'003, 6);
  values[17] = -0.5f, values[1'000'000] = std::nanf("");
  double squares = 0;
  for (const float v : values) squares += std::isfinite(v) ? static_cast<double>(v) * v : 0;
  OnDevice<float> in(values);
  OnDevice<PartialStatistics> partial{std::vector<PartialStatistics>(kStatisticsParts)};
  ASSERT_TRUE(measure(in.data(), values.size(), partial.data(), nullptr).ok());
  const VectorStatistics statistics = statistics_of(partial.back());
  EXPECT_NEAR(statistics.norm, std::sqrt(squares), 1e-9);
  EXPECT_EQ(statistics.max_abs, 0.5);
  EXPECT_EQ(statistics.nonfinite, 1);
}

TEST_F(DeviceCodecTest, ValuesOneByOneHaveTheBitsOfTheCpu) {
  const std::size_t n = 100'001;
  const std::vector<float> anchor = normal(n, 1), start = normal(n, 2);
  std::vector<float> local = start, apart(n), scaled = start;
  for (std::size_t i = 0; i < n; ++i) apart[i] = anchor[i] - start[i], scaled[i] *= 0.37f;
  outer_opt::adopt({{0, static_cast<std::int64_t>(n)}}, 0.25, anchor, local);
  OnDevice<float> theta(anchor), mine(start), out(start);
  ASSERT_TRUE(difference(theta.data(), mine.data(), n, out.data(), nullptr).ok());
  EXPECT_TRUE(same_bits(out.back(), apart));
  ASSERT_TRUE(adopt(0.25, theta.data(), n, mine.data(), nullptr).ok());
  EXPECT_TRUE(same_bits(mine.back(), local));
  std::vector<float> sum = start;
  const auto values = std::as_bytes(std::span(anchor));
  ASSERT_TRUE(codec(CodecKind::kFp32).accumulate(values, 0.37f, sum).ok());
  OnDevice<float> total(start);
  OnDevice<int> damaged(std::vector<int>{0});
  ASSERT_TRUE(add(theta.data(), n, 0.37f, total.data(), damaged.data(), nullptr).ok());
  EXPECT_TRUE(same_bits(total.back(), sum));
  EXPECT_EQ(damaged.back()[0], 0);
  OnDevice<float> factor(start);
  ASSERT_TRUE(scale(0.37f, n, factor.data(), nullptr).ok());
  EXPECT_TRUE(same_bits(factor.back(), scaled));
}

}  // namespace
}  // namespace shoal::outer_opt::cuda
