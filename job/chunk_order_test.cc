#include "job/chunk_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

namespace shoal {
namespace {

using ::testing::UnorderedElementsAreArray;

constexpr std::int64_t kContext = 10;

// Shards whose last chunk is shorter: some chunks have fewer windows, some none.
std::vector<std::int64_t> chunks_of_shards(int shards, int chunks) {
  std::vector<std::int64_t> tokens;
  for (int shard = 0; shard < shards; ++shard) {
    for (int chunk = 0; chunk + 1 < chunks; ++chunk) tokens.push_back(128);
    tokens.push_back(1 + 17 * shard % 128);
  }
  return tokens;
}

TEST(ChunkOrder, EveryWindowOfAnEpochIsReadOnce) {
  const std::vector<std::int64_t> tokens = chunks_of_shards(7, 12);
  const ChunkOrder order(tokens, kContext, 5, 0.1);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::map<std::int64_t, std::set<std::int64_t>> begun;  // windows of each chunk
    for (std::int64_t i = 0; i < order.windows(); ++i) {
      const WindowPlace place = order.place_of(epoch * order.windows() + i);
      EXPECT_GE(place.token, 0);
      EXPECT_LE(place.token + kContext + 1, tokens[static_cast<std::size_t>(place.chunk)]);
      EXPECT_TRUE(begun[place.chunk].insert(place.token).second);
    }
    for (const auto& [chunk, places] : begun) {
      EXPECT_EQ(static_cast<std::int64_t>(places.size()),
                (tokens[static_cast<std::size_t>(chunk)] - 1) / kContext);
      EXPECT_EQ(*places.rbegin() - *places.begin(),
                (static_cast<std::int64_t>(places.size()) - 1) * kContext)
          << "they follow each other";
    }
    EXPECT_LT(begun.rbegin()->first, 84 - 8) << "the last ones are held out";
  }
}

TEST(ChunkOrder, IsAFunctionOfSeedAndEpochAndDiffersBetweenThem) {
  const std::vector<std::int64_t> tokens(100, 128);
  const ChunkOrder one(tokens, kContext, 5, 0.1), same(tokens, kContext, 5, 0.1),
      other(tokens, kContext, 6, 0.1);
  int equal_seeds = 0, equal_epochs = 0;
  for (std::int64_t i = 0; i < one.windows(); ++i) {
    EXPECT_EQ(one.place_of(i), same.place_of(i));
    equal_seeds += one.place_of(i) == other.place_of(i);
    equal_epochs += one.place_of(i) == one.place_of(i + one.windows());
  }
  EXPECT_LT(equal_seeds, 20);
  EXPECT_LT(equal_epochs, 20);
  for (const std::int64_t i : {900, 3, 5'000, 17, 900})
    EXPECT_EQ(one.place_of(i), same.place_of(i));
}

TEST(ChunkOrder, AGroupNeedsFewChunks) {
  const std::vector<std::int64_t> tokens = chunks_of_shards(40, 50);
  const ChunkOrder order(tokens, kContext, 1, 0.05);
  ASSERT_GT(order.windows() / order.group_size(), 20);
  std::int64_t fetched = 0;
  for (std::int64_t from = 0; from < order.windows(); from += order.group_size()) {
    std::set<std::int64_t> needed;
    const std::int64_t end = std::min(order.windows(), from + order.group_size());
    for (std::int64_t i = from; i < end; ++i) needed.insert(order.place_of(i).chunk);
    EXPECT_THAT(order.chunks_around(from), UnorderedElementsAreArray(needed));
    EXPECT_EQ(order.chunks_around(end - 1), order.chunks_around(from));
    fetched += static_cast<std::int64_t>(needed.size());
  }
  const auto chunks = static_cast<std::int64_t>(tokens.size()) * 95 / 100;
  EXPECT_LE(fetched, chunks * 11 / 10) << "chunks that two groups share are read twice";
}

TEST(ChunkOrder, WithinAGroupChunksAreMixed) {
  const ChunkOrder order(std::vector<std::int64_t>(400, 1'001), kContext, 3, 0.1);
  std::set<std::int64_t> chunks;
  for (std::int64_t i = 0; i < 64; ++i) chunks.insert(order.place_of(i).chunk);
  EXPECT_GE(chunks.size(), 14u) << "of the 16 that are open";
}

TEST(ChunkOrder, AGroupEndsWithItsEpoch) {
  const ChunkOrder order(std::vector<std::int64_t>(40, 128), kContext, 3, 0.1);
  ASSERT_NE(order.windows() % order.group_size(), 0);
  const auto last = order.chunks_around(order.windows() - 1);
  const auto first = order.chunks_around(order.windows());
  EXPECT_NE(last, first);
  EXPECT_LE(first.size(), 16u);
}

TEST(ChunkOrder, HeldOutWindowsAreTheSameAndOfFewChunks) {
  const ChunkOrder order(std::vector<std::int64_t>(1'000, 128), kContext, 3, 0.2);
  const std::int64_t count = order.held_out(150);
  ASSERT_EQ(count, 150);
  std::set<std::int64_t> chunks;
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (std::int64_t i = 0; i < count; ++i) {
    const WindowPlace place = order.held_out_place(i, count);
    EXPECT_GE(place.chunk, 800);
    chunks.insert(place.chunk);
    places.insert({place.chunk, place.token});
  }
  EXPECT_EQ(places.size(), 150u);
  EXPECT_LE(chunks.size(), 16u);
  EXPECT_GT(*chunks.rbegin(), 980) << "evenly spaced";
  EXPECT_EQ(order.held_out(1'000'000), 200 * 12);
  for (std::int64_t i = 0; i < 2'400; ++i) (void)order.held_out_place(i, 2'400);
}

TEST(ChunkOrder, SaysWhenThereIsTooLittle) {
  EXPECT_FALSE(ChunkOrder({128}, kContext, 1, 0.1).is_enough()) << "nothing to train on";
  EXPECT_FALSE(ChunkOrder({128, 10}, kContext, 1, 0.1).is_enough()) << "nothing to validate on";
  EXPECT_FALSE(ChunkOrder({}, kContext, 1, 0.1).is_enough());
  EXPECT_TRUE(ChunkOrder({128, 11}, kContext, 1, 0.1).is_enough());
}

TEST(ChunkOrder, ALargeDatasetTakesLittleMemory) {
  // 100 GB in chunks of 1 MiB.
  const ChunkOrder order(std::vector<std::int64_t>(100'000, 262'144), 2'048, 1, 0.001);
  EXPECT_EQ(order.group_size(), 16 * 127);
  EXPECT_LE(order.chunks_around(7'000'000).size(), 17u);
}

TEST(LeaseUnit, IsAGroupWhereThereAreSeveral) {
  EXPECT_EQ(lease_unit(100, 800), 100);
  EXPECT_EQ(lease_unit(100, 799), 0);
}

}  // namespace
}  // namespace shoal
