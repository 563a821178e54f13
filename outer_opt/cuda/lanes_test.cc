// The bodies of the CUDA kernels, run by lanes that take turns on one thread, against the codecs of
// the CPU: the same bytes and bits. What only a device can show is in device_codec_test.cc.
#include "outer_opt/cuda/lanes.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
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
#include "outer_opt/cuda/blocks.h"
#include "outer_opt/cuda/partial_statistics.h"
#include "outer_opt/cuda/sparse_lanes.h"
#include "outer_opt/cuda/streams.h"

namespace shoal::outer_opt::cuda {
namespace {

// The threads of one group, which take turns on the thread of the test: one runs until it waits for
// others or has finished, then the next one does. Their order is drawn again after every turn, so a
// barrier that is missing shows as bytes that differ.
class Turns {
 public:
  // A barrier of the first `size` threads.
  struct Barrier {
    std::size_t size, arrived = 0, passed = 0;
  };

  explicit Turns(unsigned size)
      : offered(size), all{size}, lead{std::min(size, kLanes)}, lanes_(size) {}
  Turns(const Turns&) = delete;

  void run(std::function<void(unsigned)> body) {
    body_ = std::move(body);
    for (Lane& lane : lanes_) prepare(lane);
    while (done_ < lanes_.size()) {
      const std::size_t before = events();
      for (const unsigned rank : drawn_order()) {
        if (lanes_[rank].done) continue;
        now_ = rank;
        swapcontext(&home_, &lanes_[rank].context);
      }
      ASSERT_GT(events(), before) << "a barrier that not all come to";
    }
  }
  void wait(unsigned rank, Barrier& barrier) {
    const std::size_t mine = barrier.passed;
    if (++barrier.arrived == barrier.size) barrier.arrived = 0, ++barrier.passed;
    while (barrier.passed == mine) swapcontext(&lanes_[rank].context, &home_);
  }

  std::vector<double> offered;
  Barrier all, lead;

 private:
  static constexpr std::size_t kStackBytes = 64 << 10;
  struct Lane {
    std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    ucontext_t context{};
    bool done = false;
  };

  std::size_t events() const { return all.passed + lead.passed + done_; }
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
    const unsigned rank = turns.now_;
    turns.body_(rank);
    turns.lanes_[rank].done = true;
    ++turns.done_;
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
  std::size_t done_ = 0;
  Prng prng_{1};
};

class HostGroup {
 public:
  HostGroup(Turns& turns, unsigned rank) : turns_(turns), rank_(rank) {}
  unsigned rank() const { return rank_; }
  void sync() { turns_.wait(rank_, turns_.all); }
  std::uint32_t max(std::uint32_t value) { return lead_max(value); }
  std::uint32_t from(std::uint32_t value, unsigned rank) {
    return static_cast<std::uint32_t>(lead_from(static_cast<double>(value), rank));
  }
  std::uint32_t sum(std::uint32_t value) {
    return static_cast<std::uint32_t>(sum_of(static_cast<double>(value), turns_.all));
  }
  std::uint32_t add(std::uint32_t* shared, std::uint32_t value) {
    return std::exchange(*shared, *shared + value);
  }

  void lead_sync() { turns_.wait(rank_, turns_.lead); }
  double lead_sum(double value) { return sum_of(value, turns_.lead); }
  std::uint32_t lead_sum(std::uint32_t value) {
    return static_cast<std::uint32_t>(lead_sum(static_cast<double>(value)));
  }
  std::uint32_t lead_max(std::uint32_t value) {
    return static_cast<std::uint32_t>(
        together(static_cast<double>(value), turns_.lead,
                 [](std::span<const double> all) { return *std::ranges::max_element(all); }));
  }
  double lead_from(double value, unsigned rank) {
    return together(value, turns_.lead, [=](std::span<const double> all) { return all[rank]; });
  }

 private:
  template <typename Use>
  double together(double value, Turns::Barrier& barrier, Use use) {
    turns_.offered[rank_] = value;
    turns_.wait(rank_, barrier);
    const double result = use(std::span(turns_.offered).first(barrier.size));
    turns_.wait(rank_, barrier);
    return result;
  }
  // From the last to the first: the order must not matter.
  double sum_of(double value, Turns::Barrier& barrier) {
    return together(value, barrier, [](std::span<const double> all) {
      return std::accumulate(all.rbegin(), all.rend(), 0.0);
    });
  }

  Turns& turns_;
  const unsigned rank_;
};

template <unsigned kSize>
struct HostBlock : HostGroup {
  using HostGroup::HostGroup;
  static constexpr unsigned kThreads = kSize, kLead = std::min(kSize, kLanes);
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
  if (seed % 5 == 0) values[prng.below(n)] = prng.chance(.5) ? FLT_MAX : -FLT_MAX;
  if (seed % 7 == 0) values[prng.below(n)] = std::numeric_limits<float>::quiet_NaN();
  if (seed % 11 == 0) values[prng.below(n)] = -std::numeric_limits<float>::infinity();
  return values;
}

// A buffer aligned as a device's are, from whose beginning the values lie some bytes away.
template <typename T>
class Placed {
 public:
  explicit Placed(const std::vector<T>& values, std::size_t shift = 0)
      : count_(values.size()),
        shift_(shift),
        words_((count_ + shift) * sizeof(T) / sizeof(Word) + 2) {
    std::memcpy(data(), values.data(), count_ * sizeof(T));
  }
  T* data() { return reinterpret_cast<T*>(words_.data()) + shift_; }
  bool holds(const std::vector<T>& values) {
    return values.size() == count_ && std::memcmp(data(), values.data(), count_ * sizeof(T)) == 0;
  }

 private:
  struct alignas(16) Word {
    char bytes[16];
  };
  const std::size_t count_, shift_;
  std::vector<Word> words_;
};

constexpr std::uint64_t kSeeds = 60;
constexpr unsigned kAhead = 2, kWarps = 3;

// Every warp of a grid, one after the other.
template <typename Body>
void run_warps(Body body) {
  for (std::size_t warp = 0; warp < kWarps; ++warp) {
    run(kLanes, [&](HostGroup& group) { body(group, WarpPlace{warp, kWarps}); });
  }
}

template <typename Block>
void expect_encoded(CodecKind kind, const std::vector<float>& values, std::size_t shift) {
  std::vector<std::byte> expected(codec(kind).encoded_size(values.size()));
  codec(kind).encode(values, expected);
  ASSERT_EQ(Block::bytes(1), codec(kind).encoded_size(1));
  Placed<float> in(values, shift);
  Placed<std::byte> out(std::vector<std::byte>(expected.size(), std::byte{0x7e}));
  run_warps([&](HostGroup& warp, const WarpPlace& place) {
    encode_blocks<Block, kAhead>(warp, place, in.data(), values.size(), out.data());
  });
  ASSERT_TRUE(out.holds(expected))
      << to_string(kind) << ", " << values.size() << " values from " << shift;
}

template <typename Block, typename Put>
bool decode_on_lanes(std::byte* encoded, std::size_t n, Put put, float* out) {
  bool good = true;
  run_warps([&](HostGroup& warp, const WarpPlace& place) {
    if (!decode_blocks<Block, kAhead>(warp.rank(), place, encoded, n, put, out)) good = false;
  });
  return good;
}

template <typename Block>
void expect_decoded(CodecKind kind, const std::vector<float>& values, std::size_t shift) {
  const std::size_t n = values.size();
  std::vector<std::byte> encoded(codec(kind).encoded_size(n));
  codec(kind).encode(values, encoded);
  std::vector<float> sum = input(n, n + 1), decoded(n);
  Placed<std::byte> in(encoded);
  Placed<float> summed(sum, shift), out(std::vector<float>(n, 7.0f), shift);
  const bool good = codec(kind).accumulate(encoded, 0.3f, sum).ok();
  static_cast<void>(codec(kind).decode(encoded, decoded));
  ASSERT_EQ(decode_on_lanes<Block>(in.data(), n, Accumulate{0.3f}, summed.data()), good);
  ASSERT_EQ(decode_on_lanes<Block>(in.data(), n, Overwrite{}, out.data()), good);
  if (!good) return;
  ASSERT_TRUE(summed.holds(sum)) << to_string(kind) << ", " << n << " values from " << shift;
  ASSERT_TRUE(out.holds(decoded)) << to_string(kind) << ", " << n << " values from " << shift;
}

// Blocks alone, not full ones, several with a tail, each from all places of a quad.
template <typename Block>
void expect_the_bytes_of(CodecKind kind) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::size_t n = seed % 3 == 0 ? Block::kValues * (1 + seed % 8)
                                        : 1 + seed * 5 % (Block::kValues * (seed % 3 == 1 ? 1 : 7));
    const std::vector<float> values = input(n, seed);
    expect_encoded<Block>(kind, values, seed % kQuad);
    expect_decoded<Block>(kind, values, seed % kQuad);
  }
}

using Int8Block = BlockOf<formats::Int8, 8>;
using E5m2Block = BlockOf<formats::E5m2, 8>;
using Int4Block = BlockOf<formats::Int4, 4>;
using E3m0Block = BlockOf<formats::E3m0, 4>;

TEST(CudaLanes, Int8BlocksHaveTheBytesOfTheCpu) {
  expect_the_bytes_of<Int8Block>(CodecKind::kInt8);
}
TEST(CudaLanes, E5m2BlocksHaveTheBytesOfTheCpu) {
  expect_the_bytes_of<E5m2Block>(CodecKind::kE5m2);
}
TEST(CudaLanes, Int4BlocksHaveTheBytesOfTheCpu) {
  expect_the_bytes_of<Int4Block>(CodecKind::kInt4);
}
TEST(CudaLanes, E3m0BlocksHaveTheBytesOfTheCpu) {
  expect_the_bytes_of<E3m0Block>(CodecKind::kE3m0);
}

// Any byte after a good scale: e5m2 has codes that are not finite, the others have not.
TEST(CudaLanes, AnyCodesAreTakenOrRefusedAsOnTheCpu) {
  const auto expect = []<typename Block>(CodecKind kind, Block) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Prng prng(seed);
      const std::size_t n = seed % 2 == 0 ? Block::kValues : 1 + prng.below(9);
      std::vector<std::byte> bytes(codec(kind).encoded_size(n));
      codec(kind).encode(std::vector<float>(n, 1.0f), bytes);
      for (std::size_t i = Block::kScaleBytes; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(prng.next());
      }
      std::vector<float> decoded(n);
      const bool good = codec(kind).decode(bytes, decoded).ok();
      Placed<std::byte> in(bytes);
      Placed<float> out(std::vector<float>(n, 7.0f));
      ASSERT_EQ(decode_on_lanes<Block>(in.data(), n, Overwrite{}, out.data()), good) << seed;
      if (good) {
        ASSERT_TRUE(out.holds(decoded)) << to_string(kind) << ", seed " << seed;
      }
    }
  };
  expect(CodecKind::kInt8, Int8Block{});
  expect(CodecKind::kE5m2, E5m2Block{});
  expect(CodecKind::kInt4, Int4Block{});
  expect(CodecKind::kE3m0, E3m0Block{});
}

// Codes of values next to the middle between two codes, and of those at the ends of the range.
template <typename Format, typename Reference>
void expect_the_codes_of(float end, const Reference& reference) {
  Prng prng(2);
  for (int i = 0; i < 200'000; ++i) {
    const double some = prng.chance(.3) ? std::ldexp(static_cast<double>(prng.range(1, 3)),
                                                     -static_cast<int>(prng.range(0, 12)))
                                        : static_cast<double>(prng.range(0, 255)) * .5;
    const double exact = prng.chance(.2) ? prng.unit() * static_cast<double>(end) : some;
    float x = std::min(static_cast<float>(exact), end);
    for (auto steps = prng.range(0, 2); steps > 0 && x < end; --steps) {
      x = std::nextafter(x, prng.chance(.5) ? 0.0f : end);
    }
    if (prng.chance(.5)) x = -x;
    const Pack<float, 1> units{{x}};
    ASSERT_EQ(Format::codes(units), static_cast<std::uint32_t>(reference(x))) << x;
  }
}

TEST(CudaLanes, CodesAreThoseOfTheCpu) {
  using formats::Int8, formats::E5m2, formats::Int4, formats::E3m0;
  expect_the_codes_of<ByteFormat<Int8>>(
      127.1f, [](float x) { return static_cast<std::uint8_t>(Int8::code(x)); });
  expect_the_codes_of<ByteFormat<E5m2>>(57345.0f, [](float x) { return E5m2::code(x); });
  expect_the_codes_of<NibbleFormat<Int4>>(7.1f, [](float x) { return Int4::code(x); });
  expect_the_codes_of<NibbleFormat<E3m0>>(1.1f, [](float x) { return E3m0::code(x); });
}

// Quotients for every power of two; `mask`: the bits that the mantissa may have.
template <unsigned kSteps>
void expect_quotients(std::uint32_t mask) {
  Prng prng(1);
  for (std::uint32_t exponent = 1; exponent < 255; ++exponent) {
    for (int i = 0; i < 200; ++i) {
      const auto some = static_cast<std::uint32_t>(prng.below(1u << 23));
      const std::uint32_t mantissa = i % 3 == 0 ? 0u : (i % 3 == 1 ? 0x7fffffu : some);
      const float divisor = float_of(exponent << 23 | (mantissa & mask));
      const Quotients<kSteps> quotients(divisor);
      for (int j = 0; j < 40; ++j) {
        // Up to 128 times the divisor, now and then next to the middle between two codes.
        const float times = prng.chance(.5) ? static_cast<float>(prng.range(-255, 255)) * .5f
                                            : static_cast<float>(prng.normal());
        const float x = std::nextafter(divisor * times, prng.chance(.5) ? FLT_MAX : -FLT_MAX);
        const float quotient = x / divisor;
        if (!std::isfinite(x) || std::abs(quotient) < 0x1p-20f) continue;
        ASSERT_EQ(bits_of(quotients(x)), bits_of(quotient)) << x << " / " << divisor;
      }
    }
  }
}

TEST(CudaLanes, QuotientsAreThoseOfADivision) {
  expect_quotients<2>(0x7fffffu);
  expect_quotients<1>(0x7f0000u);
}

// Dividends that are lost when they are scaled have the code 0 either way.
TEST(CudaLanes, TinyQuotientsHaveNoCode) {
  for (const float divisor : {FLT_MIN, 1.5f, 0x1.8p120f, float_of(0x7f7f0000u)}) {
    const Quotients<1> quotients(divisor);
    for (const float x : {0.0f, -0.0f, FLT_TRUE_MIN, -FLT_MIN, divisor * 0x1p-30f}) {
      const float quotient = x / divisor;
      if (std::abs(quotient) > 0x1p-20f) continue;
      const Pack<float, 1> units{{quotients(x)}};
      EXPECT_EQ(ByteFormat<formats::Int8>::codes(units), 0u) << x << " / " << divisor;
      EXPECT_EQ(ByteFormat<formats::E5m2>::codes(units), 0u) << x << " / " << divisor;
      EXPECT_EQ(NibbleFormat<formats::Int4>::codes(units), 0u) << x << " / " << divisor;
      EXPECT_EQ(NibbleFormat<formats::E3m0>::codes(units), 0u) << x << " / " << divisor;
    }
  }
}

// ---- value by value

// All threads of a grid, one after the other. The operation of each, as it is in the end.
template <typename Each>
std::vector<Each> walk_grid(std::size_t n, const Each& each) {
  constexpr unsigned kThreads = 8, kBlocks = 3;
  std::vector<Each> all;
  for (unsigned i = 0; i < kThreads * kBlocks; ++i) {
    all.push_back(each);
    walk<kAhead>(ThreadPlace{i % kThreads, kThreads, i / kThreads, kBlocks}, n, all.back());
  }
  return all;
}

// Less than a tile of walk_grid(), one, several, with tails; and where the values begin.
struct Case {
  std::size_t n, shift;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::size_t n : {1u, 3u, 63u, 64u, 65u, 191u, 192u, 1000u}) {
    for (std::size_t shift = 0; shift < kQuad; ++shift) all.push_back({n, shift});
  }
  return all;
}

template <typename Format>
void expect_the_values_of(CodecKind kind) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto [n, shift] = cases()[seed % cases().size()];
    const std::vector<float> values = input(n, seed);
    std::vector<std::byte> expected(codec(kind).encoded_size(n));
    codec(kind).encode(values, expected);
    Placed<float> in(values, shift);
    Placed<std::byte> encoded(std::vector<std::byte>(expected.size(), std::byte{0x7e}));
    using Encoding = FlatEncoding<Format>;
    auto* stored = reinterpret_cast<typename Encoding::Stored*>(encoded.data());
    walk_grid(n, Encoding{in.data(), stored});
    ASSERT_TRUE(encoded.holds(expected)) << to_string(kind) << ", " << n << " from " << shift;

    std::vector<float> decoded(n), sum = input(n, seed + 1);
    Placed<float> out(decoded, shift), summed(sum, shift);
    const bool good = codec(kind).decode(expected, decoded).ok();
    static_cast<void>(codec(kind).accumulate(expected, 0.3f, sum));
    const FlatDecoding<Format, Overwrite> over{stored, out.data(), {}};
    const FlatDecoding<Format, Accumulate> onto{stored, summed.data(), {0.3f}};
    const auto is_good = [](const auto& one) { return one.good; };
    ASSERT_EQ(std::ranges::all_of(walk_grid(n, over), is_good), good) << seed;
    ASSERT_EQ(std::ranges::all_of(walk_grid(n, onto), is_good), good) << seed;
    if (!good) continue;
    ASSERT_TRUE(out.holds(decoded)) << to_string(kind) << ", " << n << " from " << shift;
    ASSERT_TRUE(summed.holds(sum)) << to_string(kind) << ", " << n << " from " << shift;
  }
}

TEST(CudaLanes, FormatsWithoutBlocksHaveTheBytesOfTheCpu) {
  expect_the_values_of<formats::Fp32>(CodecKind::kFp32);
  expect_the_values_of<formats::Fp16>(CodecKind::kFp16);
  expect_the_values_of<formats::Bf16>(CodecKind::kBf16);
}

TEST(CudaLanes, DifferencesAndProductsHaveTheBitsOfTheCpu) {
  for (const auto& [n, shift] : cases()) {
    const std::vector<float> a = input(n, 1), b = input(n, 2);
    std::vector<float> apart(n), scaled = a;
    for (std::size_t i = 0; i < n; ++i) apart[i] = a[i] - b[i], scaled[i] *= 0.37f;
    Placed<float> first(a, shift), second(b), out(std::vector<float>(n, 7.0f), shift / 2);
    walk_grid(n, Map<2, Minus>{{first.data(), second.data()}, out.data(), {}});
    ASSERT_TRUE(out.holds(apart)) << n << " from " << shift;
    walk_grid(n, Map<1, Times>{{first.data()}, first.data(), {0.37f}});
    ASSERT_TRUE(first.holds(scaled)) << n << " from " << shift;
  }
}

TEST(CudaLanes, LocalParametersAreAdoptedAsOnTheCpu) {
  for (const double blend : {0.0, 0.5, 0.3}) {
    for (const auto& [n, shift] : cases()) {
      const std::vector<float> anchor = input(n, 8);
      std::vector<float> local = input(n, 9);
      Placed<float> theta(anchor, shift), mine(local, shift);
      adopt({{0, static_cast<std::int64_t>(n)}}, blend, anchor, local);
      const auto kept = static_cast<float>(blend);
      walk_grid(n, Map<2, Adopt>{{mine.data(), theta.data()}, mine.data(), {kept, 1.0f - kept}});
      ASSERT_TRUE(mine.holds(local)) << blend << ", " << n << " from " << shift;
    }
  }
}

TEST(CudaLanes, TheOuterStepHasTheBitsOfTheCpu) {
  const OuterSpec options{0.7, 0.9};
  for (const auto& [n, shift] : cases()) {
    std::vector<float> average = input(n, 1), momentum = input(n, 2), anchor = input(n, 3);
    Placed<float> d(average), m(momentum, shift), theta(anchor, shift);
    nesterov_step(options, average, momentum, anchor);
    walk_grid(n, OuterStep{static_cast<float>(options.lr), static_cast<float>(options.momentum),
                           d.data(), m.data(), theta.data()});
    ASSERT_TRUE(m.holds(momentum)) << n << " from " << shift;
    ASSERT_TRUE(theta.holds(anchor)) << n << " from " << shift;
  }
}

TEST(CudaLanes, StatisticsAreThoseOfTheValues) {
  for (const auto& [n, shift] : cases()) {
    std::vector<float> values = input(n, 4);
    if (n > 2) values[1] = -std::numeric_limits<float>::infinity(), values[2] = std::nanf("");
    double squares = 0, most = 0;
    for (const float v : values) {
      if (!std::isfinite(v)) continue;
      squares += static_cast<double>(v) * static_cast<double>(v);
      most = std::max(most, std::abs(static_cast<double>(v)));
    }
    Placed<float> in(values, shift);
    std::vector<PartialStatistics> parts;
    for (const Measuring& one : walk_grid(n, Measuring{in.data()})) {
      parts.push_back({one.squares, one.largest, one.nonfinite});
    }
    const VectorStatistics statistics = statistics_of(parts);
    EXPECT_NEAR(statistics.norm, std::sqrt(squares), 1e-12 * std::sqrt(squares));
    EXPECT_EQ(statistics.max_abs, most);
    EXPECT_EQ(statistics.nonfinite, n > 2 ? 2 : 0);
  }
}

// ---- sparse2

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
void expect_the_chunk(const std::vector<float>& values, const std::string& what,
                      std::size_t shift = 0) {
  std::vector<std::byte> expected(sparse2_size(values.size()));
  sparse2_encode(values, expected);
  Placed<float> in(values, shift);
  Placed<std::byte> out(std::vector<std::byte>(expected.size(), std::byte{0x7e}));
  const auto scratch = std::make_unique<SparseScratch>();
  std::memset(static_cast<void*>(scratch.get()), 0x7e, sizeof *scratch);  // as a device leaves it
  run<HostBlock<kThreads>>(kThreads, [&](HostBlock<kThreads>& group) {
    encode_sparse_chunk(group, in.data(), static_cast<unsigned>(values.size()), *scratch,
                        out.data());
  });
  ASSERT_TRUE(out.holds(expected))
      << what << ", " << values.size() << " values, " << kThreads << " threads";
}

TEST(CudaLanes, SparseChunksHaveTheBytesOfTheCpu) {
  for (std::uint64_t seed = 1; seed <= 36; ++seed) {
    const std::size_t n = seed % 2 == 0 ? sparse2::kChunk : 1 + seed * 171 % sparse2::kChunk;
    const std::string what = "seed " + std::to_string(seed);
    expect_the_chunk<4>(chunk_of(n, seed), what, seed % 4);
    expect_the_chunk<64>(chunk_of(n, seed), what, seed / 4 % 4);
  }
  expect_the_chunk<128>(chunk_of(sparse2::kChunk, 2), "as on a device");
}

TEST(CudaLanes, SparseChunksOfOneValueOrOfZeros) {
  expect_the_chunk<2>(std::vector<float>(sparse2::kChunk, 0.0f), "zeros");
  expect_the_chunk<64>(std::vector<float>(sparse2::kChunk, -0.0f), "zeros");
  expect_the_chunk<2>(std::vector<float>(100, -3.0f), "one value");
  expect_the_chunk<2>({1e-30f}, "alone");
}

// More values reach the floor than there is room for candidates, or just as many.
TEST(CudaLanes, SparseChunksWithTooManyCandidates) {
  for (const std::size_t equal : {63u, 64u, 65u, 255u, 256u, 257u, 1000u}) {
    std::vector<float> values = chunk_of(sparse2::kChunk, 2);
    for (std::size_t i = 0; i < equal; ++i) values[i * 4095 / equal] = i % 2 == 0 ? 50.0f : -50.0f;
    expect_the_chunk<4>(values, std::to_string(equal) + " equal ones");
    values[4095] = 1e9f;
    expect_the_chunk<64>(values, std::to_string(equal) + " equal ones and a larger one");
  }
}

TEST(CudaLanes, SparseChunksWithValuesThatAreNotFinite) {
  for (const float one :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values = chunk_of(sparse2::kChunk, 5);
    values[100] = one, values[3000] = -one;
    expect_the_chunk<4>(values, "two");
    expect_the_chunk<64>(std::vector<float>(sparse2::kChunk, one), "all");
  }
}

TEST(CudaLanes, SumsThatDependOnTheirOrderAreMadeByOneThread) {
  std::vector<float> values(64, 1e-7f);
  values[5] = 1e9f;
  values[60] = 3.0f;
  expect_the_chunk<4>(values, "far apart");
}

}  // namespace
}  // namespace shoal::outer_opt::cuda
