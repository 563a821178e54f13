// The bodies of the CUDA kernels, run by threads of the host, against the codecs of the CPU: the
// same bytes and bits. What only a device can show is in device_codec_test.cc.
#include "outer_opt/cuda/lanes.h"

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec.h"
#include "outer_opt/core/nesterov.h"
#include "outer_opt/core/sparse2.h"
#include "outer_opt/cuda/sparse_lanes.h"

namespace shoal::outer_opt::cuda {
namespace {

// What a group of host threads shares.
struct Meeting {
  explicit Meeting(unsigned size) : barrier(size), offered(size) {}
  std::barrier<> barrier;
  std::vector<std::uint32_t> offered;
};

class HostGroup {
 public:
  HostGroup(Meeting& meeting, unsigned rank) : meeting_(meeting), rank_(rank) {}
  unsigned rank() const { return rank_; }
  unsigned size() const { return static_cast<unsigned>(meeting_.offered.size()); }
  void sync() { meeting_.barrier.arrive_and_wait(); }
  std::uint32_t max(std::uint32_t value) {
    meeting_.offered[rank_] = value;
    sync();
    const auto largest = *std::max_element(meeting_.offered.begin(), meeting_.offered.end());
    sync();
    return largest;
  }
  void add(std::uint32_t* shared, std::uint32_t value) { std::atomic_ref(*shared) += value; }
  void set_bits(std::uint32_t* shared, std::uint32_t bits) { std::atomic_ref(*shared) |= bits; }

 private:
  Meeting& meeting_;
  const unsigned rank_;
};

template <typename Body>
void run(unsigned threads, Body body) {
  Meeting meeting(threads);
  std::vector<std::jthread> running;
  for (unsigned rank = 0; rank < threads; ++rank) {
    running.emplace_back([&, rank] {
      HostGroup group(meeting, rank);
      body(group);
    });
  }
}

// A block's values: all kinds of magnitudes, ties, denormals, now and then one that is not finite.
std::vector<float> input(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  const double scale = std::pow(10.0, static_cast<double>(prng.range(-42, 36)));
  std::vector<float> values(n);
  for (float& v : values) {
    v = prng.chance(.2) ? static_cast<float>(prng.range(-9, 9)) * .5f
                        : static_cast<float>(prng.normal() * (prng.chance(.1) ? 1 : scale));
  }
  if (seed % 7 == 0) values[prng.below(n)] = std::numeric_limits<float>::quiet_NaN();
  if (seed % 11 == 0) values[prng.below(n)] = -std::numeric_limits<float>::infinity();
  return values;
}

// Buffers aligned as a device's are.
template <typename T>
class Aligned {
 public:
  explicit Aligned(const std::vector<T>& values) : words_(values.size() * sizeof(T) / 16 + 2) {
    std::memcpy(words_.data(), values.data(), values.size() * sizeof(T));
  }
  T* data() { return reinterpret_cast<T*>(words_.data()); }

 private:
  struct alignas(16) Word {
    char bytes[16];
  };
  std::vector<Word> words_;
};

constexpr std::uint64_t kSeeds = 60;

template <typename Block>
void expect_the_bytes_of(CodecKind kind) {
  const Codec& cpu = codec(kind);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::size_t n = seed % 2 == 0 ? Block::kValues : 1 + seed * 5 % Block::kValues;
    const std::vector<float> values = input(n, seed);
    std::vector<std::byte> expected(cpu.encoded_size(n));
    cpu.encode(values, expected);
    ASSERT_EQ(Block::bytes(n), expected.size());

    Aligned<float> in(values);
    Aligned<std::byte> out(std::vector<std::byte>(expected.size()));
    run(kLanes, [&](HostGroup& warp) {
      Block::encode(warp, in.data(), static_cast<unsigned>(n), out.data());
    });
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0)
        << to_string(kind) << ", seed " << seed;

    std::vector<float> sum = input(n, seed + 1);
    Aligned<float> on_host(sum);
    const bool good = cpu.accumulate(expected, 0.3f, sum).ok();
    std::atomic<bool> all_good = true;
    run(kLanes, [&](HostGroup& warp) {
      if (!Block::decode(warp, out.data(), static_cast<unsigned>(n), Accumulate{0.3f},
                         on_host.data()))
        all_good = false;
    });
    ASSERT_EQ(all_good.load(), good) << to_string(kind) << ", seed " << seed;
    if (good) {
      ASSERT_EQ(std::memcmp(on_host.data(), sum.data(), 4 * n), 0) << seed;
    }
  }
}

TEST(CudaLanes, Int8BlocksHaveTheBytesOfTheCpu) {
  expect_the_bytes_of<Int8Block>(CodecKind::kInt8);
}
TEST(CudaLanes, Int4BlocksHaveTheBytesOfTheCpu) {
  expect_the_bytes_of<NibbleBlock<formats::Int4>>(CodecKind::kInt4);
}
TEST(CudaLanes, E3m0BlocksHaveTheBytesOfTheCpu) {
  expect_the_bytes_of<NibbleBlock<formats::E3m0>>(CodecKind::kE3m0);
}

template <typename Format>
void expect_the_quads_of(CodecKind kind) {
  const Codec& cpu = codec(kind);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::size_t n = 1 + seed % kQuad;
    const std::vector<float> values = input(n, seed);
    std::vector<std::byte> expected(cpu.encoded_size(n));
    cpu.encode(values, expected);
    Aligned<float> in(values);
    Aligned<std::byte> out(std::vector<std::byte>(expected.size()));
    FlatQuad<Format>::encode(in.data(), n, out.data());
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0) << seed;
    std::vector<float> decoded(n);
    Aligned<float> back(decoded);
    const bool good = cpu.decode(expected, decoded).ok();
    ASSERT_EQ(FlatQuad<Format>::decode(out.data(), n, Overwrite{}, back.data()), good) << seed;
    if (good) {
      ASSERT_EQ(std::memcmp(back.data(), decoded.data(), 4 * n), 0) << seed;
    }
  }
}

TEST(CudaLanes, FormatsWithoutBlocksHaveTheBytesOfTheCpu) {
  expect_the_quads_of<formats::Fp32>(CodecKind::kFp32);
  expect_the_quads_of<formats::Fp16>(CodecKind::kFp16);
  expect_the_quads_of<formats::Bf16>(CodecKind::kBf16);
}

// Many equal magnitudes, so that the choice among them matters.
std::vector<float> chunk_of(std::size_t n, std::uint64_t seed) {
  if (seed % 3 != 0) return input(n, seed);
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.range(-2, 2));
  return values;
}

TEST(CudaLanes, SparseChunksHaveTheBytesOfTheCpu) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const std::size_t n = seed % 2 == 0 ? sparse2::kChunk : 1 + seed * 171 % sparse2::kChunk;
    const std::vector<float> values = chunk_of(n, seed);
    std::vector<std::byte> expected(sparse2_size(n)), out(expected.size());
    sparse2_encode(values, expected);
    const auto scratch = std::make_unique<SparseScratch>();
    const unsigned threads = seed % 2 == 0 ? 8 : 3;
    run(threads, [&](HostGroup& group) {
      encode_sparse_chunk(group, values.data(), static_cast<unsigned>(n), *scratch, out.data());
    });
    ASSERT_EQ(out, expected) << "seed " << seed << ", " << n << " values";
  }
}

TEST(CudaLanes, TheOuterStepHasTheBitsOfTheCpu) {
  const OuterSpec options{0.7, 0.9};
  std::vector<float> average = input(1000, 1), momentum = input(1000, 2), anchor = input(1000, 3);
  std::vector<float> m = momentum, theta = anchor;
  nesterov_step(options, average, momentum, anchor);
  const OuterStep step{static_cast<float>(options.lr), static_cast<float>(options.momentum)};
  for (std::size_t i = 0; i < average.size(); ++i) step(average[i], m[i], theta[i]);
  EXPECT_EQ(std::memcmp(m.data(), momentum.data(), 4000), 0);
  EXPECT_EQ(std::memcmp(theta.data(), anchor.data(), 4000), 0);
}

}  // namespace
}  // namespace shoal::outer_opt::cuda
