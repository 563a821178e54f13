// The small things everything stands on.
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "base/backoff.h"
#include "base/digest.h"
#include "base/flat_map.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal {
namespace {

TEST(Ids, TextFormIsReadBack) {
  EXPECT_EQ(to_string(JobId(7)), "job_7");
  EXPECT_EQ(parse_id<JobTag>("job_7"), JobId(7));
  EXPECT_EQ(parse_id<CheckpointTag>("ckpt_9223372036854775807"),
            CheckpointId(9223372036854775807u));
}

TEST(Ids, NothingElseIsAnId) {
  for (const char* text :
       {"", "job_", "7", "agt_7", "job_07", "job_0", "job_-1", "job_+1", "job_1 ", "job_1a",
        "job_9223372036854775808", "job_99999999999999999999"}) {
    EXPECT_FALSE(parse_id<JobTag>(text)) << text;
  }
}

TEST(Prng, IsTheSameEverywhere) {
  Prng prng(1);
  Prng again(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(prng.next(), again.next());
  std::uint64_t state = 0;  // reference values of SplitMix64
  EXPECT_EQ(split_mix(state), 0xe220a8397b1dcdafull);
  EXPECT_EQ(split_mix(state), 0x6e789e6aa1b965f4ull);
}

TEST(Prng, BelowIsEvenAndInBounds) {
  Prng prng(3);
  std::array<int, 7> seen{};
  for (int i = 0; i < 70'000; ++i) ++seen.at(prng.below(7));
  for (const int count : seen) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_EQ(prng.below(1), 0u);
}

TEST(Prng, RangeIncludesBothEndsAndTheWholeWidth) {
  Prng prng(4);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(prng.range(-1, 1));
  EXPECT_EQ(seen, (std::set<std::int64_t>{-1, 0, 1}));
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  prng.range(kMin, kMax);
  EXPECT_EQ(prng.range(kMax, kMax), kMax);
}

TEST(Prng, DistributionsHaveTheirMoments) {
  Prng prng(5);
  double unit = 0, exponential = 0, normal = 0, square = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = prng.unit();
    ASSERT_TRUE(u >= 0 && u < 1);
    unit += u;
    exponential += prng.exponential(2);
    const double n = prng.normal();
    normal += n;
    square += n * n;
  }
  EXPECT_NEAR(unit / kDraws, 0.5, 0.01);
  EXPECT_NEAR(exponential / kDraws, 2, 0.05);
  EXPECT_NEAR(normal / kDraws, 0, 0.02);
  EXPECT_NEAR(square / kDraws, 1, 0.03);
}

// Golden bits: initial parameters come from these, and must not depend on the C library.
TEST(Prng, DistributionsAreTheSameBitsEverywhere) {
  Prng prng(2026);
  Digester normals, exponentials;
  for (int i = 0; i < 100'000; ++i) normals.add(prng.normal());
  for (int i = 0; i < 100'000; ++i) exponentials.add(prng.exponential(1));
  EXPECT_EQ(to_hex(normals.finish()), "1b19d814a3977acf085ed24ec782fcb8");
  EXPECT_EQ(to_hex(exponentials.finish()), "5d7abf4a5a0d7bccc99fc4d55ac26fc2");
  Prng first(1);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(first.normal()), 0xbff8b93b94e8cc62ull);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(first.normal()), 0xbff037e69664d113ull);
}

// The bits may differ from the C library's in the last places and in nothing else.
TEST(Prng, NormalIsBoxMuller) {
  Prng prng(8), same(8);
  for (int i = 0; i < 100'000; ++i) {
    const double radius = std::sqrt(-2 * std::log1p(-same.unit()));
    const double turns = same.unit();
    EXPECT_NEAR(prng.normal(), radius * std::cos(2 * 3.14159265358979323846 * turns),
                1e-14 * (1 + radius));
  }
}

TEST(Prng, ShuffleKeepsEveryItem) {
  std::vector<int> items{0, 1, 2, 3, 4, 5, 6, 7};
  Prng prng(6);
  prng.shuffle(items);
  EXPECT_EQ(std::set<int>(items.begin(), items.end()).size(), 8u);
}

TEST(Permutation, IsABijection) {
  for (const std::uint64_t size : {1u, 2u, 3u, 5u, 16u, 17u, 1000u, 4096u, 4097u}) {
    const Permutation permutation(size, size * 31);
    std::vector<bool> hit(size, false);
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto to = permutation(i);
      ASSERT_LT(to, size);
      EXPECT_FALSE(hit[to]) << "size " << size;
      hit[to] = true;
    }
  }
}

TEST(Permutation, DependsOnTheSeedAndTakesLargeSizes) {
  const Permutation a(1'000'000'000'000, 1), b(1'000'000'000'000, 2);
  EXPECT_NE(a(5), b(5));
  EXPECT_LT(a(999'999'999'999), 1'000'000'000'000u);
}

TEST(FlatMap, IteratesInKeyOrder) {
  FlatMap<int, std::string> map;
  map[3] = "c";
  map.put(1, "a");
  map[2] = "b";
  std::string joined;
  for (const auto& [key, value] : map) joined += value;
  EXPECT_EQ(joined, "abc");
  EXPECT_EQ(map.at(2), "b");
  EXPECT_EQ(map.find(4), nullptr);
  EXPECT_TRUE(map.erase(1));
  EXPECT_FALSE(map.erase(1));
  EXPECT_EQ(map.size(), 2u);
  EXPECT_DEATH(map.at(1), "no such key");
}

TEST(Digest, HexIsReadBack) {
  const Digest digest{0x0123456789abcdefull, 0xfedcba9876543210ull};
  EXPECT_EQ(to_hex(digest), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(parse_digest(to_hex(digest)), digest);
  EXPECT_FALSE(parse_digest("0123"));
  EXPECT_FALSE(parse_digest("0123456789ABCDEFfedcba9876543210"));
}

TEST(Digest, StringsDoNotRunTogether) {
  EXPECT_NE(Digester().add("ab").add("c").finish(), Digester().add("a").add("bc").finish());
  EXPECT_EQ(Digester().add("ab").add(1).finish(), Digester().add("ab").add(1).finish());
  EXPECT_NE(Digester().add(0.0).finish(), Digester().add(-0.0).finish());
}

TEST(Digest, FinishMayComeBetweenAdds) {
  Digester digester;
  digester.add(1);
  const Digest first = digester.finish();
  EXPECT_EQ(first, digester.finish());
  digester.add(2);
  EXPECT_NE(first, digester.finish());
}

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 5;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 5);
  const Result<int> bad =
      Error{Code::kValidation, "must be above 0, got -1", "train.lr", "use 0.001"};
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(to_string(bad.error()), "train.lr: must be above 0, got -1 (use 0.001)");
  EXPECT_DEATH((void)bad.value(), "must be above 0");
}

TEST(Result, StatusIsGoodByDefault) {
  EXPECT_TRUE(Status().ok());
  const Status bad = Error{Code::kUnavailable, "peer gone", "", ""};
  EXPECT_EQ(bad.error().code, Code::kUnavailable);
  EXPECT_STREQ(to_string(Code::kDataLoss), "data_loss");
}

TEST(Backoff, GrowsToItsCapAndIsNeverImmediate) {
  Prng prng(9);
  Backoff backoff(milliseconds(100), seconds(1));
  Duration range = milliseconds(100);
  for (int i = 0; i < 50; ++i) {
    const Duration wait = backoff.next(prng);
    EXPECT_GE(wait, range / 10);
    EXPECT_LE(wait, range);
    range = std::min(range * 2, seconds(1));
  }
  backoff.reset();
  EXPECT_LE(backoff.next(prng), milliseconds(100));
}

TEST(Time, ArithmeticStaysInUnits) {
  EXPECT_EQ(seconds(1) + milliseconds(500), milliseconds(1500));
  EXPECT_EQ(from_unix_ms(5) - from_unix_ms(3), milliseconds(2));
  EXPECT_DOUBLE_EQ(seconds_f(0.25).seconds(), 0.25);
  EXPECT_EQ(mebibytes(2).count(), 2 << 20);
}

}  // namespace
}  // namespace shoal
