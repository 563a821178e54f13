// The bodies of the CUDA kernels, run by lanes that take turns on one thread, against the codecs of
// the CPU: the same bytes and bits. What only a device can show is in device_codec_test.cc.
#include "outer_opt/cuda/lanes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <ucontext.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/cuda/sparse_lanes.h"

namespace shoal::outer_opt::cuda {
namespace {

// The threads of one group, which take turns on the thread of the test: one runs until it waits for
// the others or is through, then the next one does. Their order is drawn anew after every barrier,
// so a barrier that is missing shows as bytes that differ.
class Turns {
 public:
  explicit Turns(unsigned size) : offered(size), lanes_(size) {}
  Turns(const Turns&) = delete;

  // Body of each, by rank. All wait equally often.
  void run(std::function<void(unsigned)> body) {
    body_ = std::move(body);
    for (Lane& lane : lanes_) prepare(lane);
    while (!lanes_.front().done) {
      for (const unsigned rank : drawn_order()) {
        now_ = rank;
        swapcontext(&home_, &lanes_[rank].context);
      }
      for (const Lane& lane : lanes_) {
        ASSERT_EQ(lane.done, lanes_.front().done) << "a barrier that not all come to";
      }
    }
  }
  void wait(unsigned rank) { swapcontext(&lanes_[rank].context, &home_); }

  std::vector<double> offered;

 private:
  static constexpr std::size_t kStackBytes = 64 << 10;
  struct Lane {
    std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    ucontext_t context{};
    bool done = false;
  };

  void prepare(Lane& lane) {
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = lane.stack.get();
    lane.context.uc_stack.ss_size = kStackBytes;
    lane.context.uc_link = &home_;
    current_ = this;
    makecontext(&lane.context, &Turns::begin, 0);
  }
  static void begin() {
    Turns& turns = *current_;
    turns.body_(turns.now_);
    turns.lanes_[turns.now_].done = true;
  }
  std::vector<unsigned> drawn_order() {
    std::vector<unsigned> order(lanes_.size());
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[prng_.below(i)]);
    return order;
  }

  static inline Turns* current_ = nullptr;
  std::vector<Lane> lanes_;
  std::function<void(unsigned)> body_;
  ucontext_t home_{};
  unsigned now_ = 0;
  Prng prng_{1};
};

class HostGroup {
 public:
  HostGroup(Turns& turns, unsigned rank) : turns_(turns), rank_(rank) {}
  unsigned rank() const { return rank_; }
  void sync() { turns_.wait(rank_); }
  std::uint32_t max(std::uint32_t value) {
    turns_.offered[rank_] = value;
    sync();
    const double largest = *std::max_element(turns_.offered.begin(), turns_.offered.end());
    sync();
    return static_cast<std::uint32_t>(largest);
  }
  // From the last to the first: the order must not matter.
  double sum(double value) {
    turns_.offered[rank_] = value;
    sync();
    const double total = std::accumulate(turns_.offered.rbegin(), turns_.offered.rend(), 0.0);
    sync();
    return total;
  }
  std::uint32_t sum(std::uint32_t value) {
    return static_cast<std::uint32_t>(sum(static_cast<double>(value)));
  }
  std::uint32_t add(std::uint32_t* shared, std::uint32_t value) {
    return std::exchange(*shared, *shared + value);
  }

 private:
  Turns& turns_;
  const unsigned rank_;
};

template <unsigned kSize>
struct HostBlock : HostGroup {
  using HostGroup::HostGroup;
  static constexpr unsigned kThreads = kSize;
};

template <typename Group = HostGroup, typename Body>
void run(unsigned threads, Body body) {
  Turns turns(threads);
  turns.run([&](unsigned rank) {
    Group group(turns, rank);
    body(group);
  });
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
    bool all_good = true;
    run(kLanes, [&](HostGroup& warp) {
      if (!Block::decode(warp, out.data(), static_cast<unsigned>(n), Accumulate{0.3f},
                         on_host.data()))
        all_good = false;
    });
    ASSERT_EQ(all_good, good) << to_string(kind) << ", seed " << seed;
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

// Some chunks with many equal magnitudes, so that the choice among them matters; some in which the
// sums of the codebook depend on their order, some in which they do not.
std::vector<float> chunk_of(std::size_t n, std::uint64_t seed) {
  if (seed % 3 == 0) return input(n, seed);
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) {
    v = seed % 3 == 1 ? static_cast<float>(prng.range(-2, 2)) : static_cast<float>(prng.normal());
  }
  return values;
}

template <unsigned kThreads>
void expect_the_chunk(const std::vector<float>& values, const std::string& what) {
  std::vector<std::byte> expected(sparse2_size(values.size())), out(expected.size());
  sparse2_encode(values, expected);
  const auto scratch = std::make_unique<SparseScratch>();
  std::memset(static_cast<void*>(scratch.get()), 0x7e, sizeof *scratch);  // as a device leaves it
  run<HostBlock<kThreads>>(kThreads, [&](HostBlock<kThreads>& group) {
    encode_sparse_chunk(group, values.data(), static_cast<unsigned>(values.size()), *scratch,
                        out.data());
  });
  ASSERT_EQ(out, expected) << what << ", " << values.size() << " values";
}

TEST(CudaLanes, SparseChunksHaveTheBytesOfTheCpu) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const std::size_t n = seed % 2 == 0 ? sparse2::kChunk : 1 + seed * 171 % sparse2::kChunk;
    const std::string what = "seed " + std::to_string(seed);
    if (seed % 4 < 2) {
      expect_the_chunk<4>(chunk_of(n, seed), what);
    } else {
      expect_the_chunk<2>(chunk_of(n, seed), what);
    }
  }
}

TEST(CudaLanes, SparseChunksOfOneValueOrOfZeros) {
  expect_the_chunk<2>(std::vector<float>(sparse2::kChunk, 0.0f), "zeros");
  expect_the_chunk<2>(std::vector<float>(100, -3.0f), "one value");
  expect_the_chunk<2>({1e-30f}, "alone");
}

TEST(CudaLanes, SumsThatDependOnTheirOrderAreMadeByOneThread) {
  std::vector<float> values(64, 1e-7f);
  values[5] = 1e9f;
  values[60] = 3.0f;
  expect_the_chunk<4>(values, "far apart");
}

// A part of a vector begins anywhere.
TEST(CudaLanes, ValuesNeedNoAlignment) {
  for (std::size_t first = 0; first < kQuad; ++first) {
    const std::vector<float> values = input(kQuad + first, 5),
                             alone(values.begin() + first, values.end());
    std::vector<std::byte> expected(codec(CodecKind::kFp16).encoded_size(kQuad));
    codec(CodecKind::kFp16).encode(alone, expected);
    Aligned<float> in(values);
    Aligned<std::byte> out(std::vector<std::byte>(expected.size()));
    FlatQuad<formats::Fp16>::encode(in.data() + first, kQuad, out.data());
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0) << first;
    std::vector<float> decoded(kQuad);
    ASSERT_TRUE(codec(CodecKind::kFp16).decode(expected, decoded).ok());
    ASSERT_TRUE(FlatQuad<formats::Fp16>::decode(out.data(), kQuad, Overwrite{}, in.data() + first));
    ASSERT_EQ(std::memcmp(in.data() + first, decoded.data(), 4 * kQuad), 0) << first;
  }
}

TEST(CudaLanes, LocalParametersAreAdoptedAsOnTheCpu) {
  for (const double blend : {0.0, 0.5, 0.3}) {
    const std::vector<float> anchor = input(1000, 8);
    std::vector<float> local = input(1000, 9), mine = local;
    adopt({{0, 1000}}, blend, anchor, local);
    const auto kept = static_cast<float>(blend);
    const Adopt one{kept, 1.0f - kept};
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = one(mine[i], anchor[i]);
    EXPECT_EQ(std::memcmp(mine.data(), local.data(), 4000), 0) << blend;
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
