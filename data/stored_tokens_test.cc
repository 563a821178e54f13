#include "data/stored_tokens.h"

#include <map>
#include <set>

#include <gmock/gmock.h>

#include "job/data_rules.h"
#include "job/mixture_order.h"
#include "threads/mutex.h"

namespace shoal::data {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kContext = 32, kChunk = kChunkBytesMin;
constexpr std::int64_t kTokensOfChunk = kChunk / 4;

// Datasets whose tokens tell where they stand: token i of a shard is (base + i) % vocab.
class StoredTokensTest : public ::testing::Test {
 protected:
  struct Kept {
    Manifest manifest;
    std::vector<std::string> shards;
  };

  // `name` is of one letter, which is its hash, too.
  std::string add(const std::string& name, const std::vector<std::int64_t>& tokens,
                  std::int64_t base = 0) {
    const std::string hash(64, name[0]);
    Kept kept{{Tokenizer::kUint32, kChunk, {}}, {}};
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string bytes;
      std::int64_t largest = 0;
      for (std::int64_t k = 0; k < tokens[i]; ++k) {
        const std::int64_t token = base + k % 100'000;
        largest = std::max(largest, token);
        for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(token >> (8 * byte));
      }
      kept.manifest.shards.push_back(
          {name + std::to_string(i) + ".bin", tokens[i] * 4, hash, hash, "", largest, 0});
      kept.shards.push_back(std::move(bytes));
    }
    kept_[hash] = std::move(kept);
    return name + "@" + hash;
  }

  Result<std::string> read(const std::string& manifest, std::int64_t shard, std::int64_t chunk) {
    const Kept& kept = kept_.at(manifest);
    if (shard == kManifestText) return to_text(kept.manifest);
    if (shard == kTokenizerText) return "tokenizer of " + kept.manifest.tokenizer;
    const MutexLock guard(mutex_);
    read_.insert({manifest, {shard, chunk}});
    arrived_.notify_all();
    if (away_) return Error{Code::kUnavailable, "shard a0.bin, byte 0: nobody answers", "", ""};
    return kept.shards[static_cast<std::size_t>(shard)].substr(
        static_cast<std::size_t>(chunk * kChunk), static_cast<std::size_t>(kChunk));
  }

  Result<std::string> tokenizer_of(const JobSpec& spec) {
    return read_tokenizer(
        spec, [this](const std::string& manifest, std::int64_t shard, std::int64_t chunk) {
          return read(manifest, shard, chunk);
        });
  }

  JobSpec spec(DataSpec data) {
    JobSpec spec;
    spec.name = "a";
    spec.model.context = kContext;
    spec.model.vocab = 128'256;
    data.tokenizer = Tokenizer::kUint32;
    data.val_fraction = 0.1;
    spec.data = std::move(data);
    return spec;
  }
  Result<std::unique_ptr<StoredTokens>> open(const JobSpec& spec) {
    return StoredTokens::open(
        spec, [this](const std::string& manifest, std::int64_t shard, std::int64_t chunk) {
          return read(manifest, shard, chunk);
        });
  }

  // Chunks of the only shard of a dataset, once there are so many, which come from other threads.
  std::set<std::int64_t> chunks_read(std::size_t wanted) {
    const MutexLock guard(mutex_);
    arrived_.wait_for(mutex_, std::chrono::seconds(10),
                      [&]() SHOAL_REQUIRES(mutex_) { return read_.size() >= wanted; });
    std::set<std::int64_t> chunks;
    for (const auto& [manifest, place] : read_) chunks.insert(place.second);
    return chunks;
  }
  std::int64_t reads_of(char dataset, std::int64_t wanted) {
    const auto count = [&]() SHOAL_REQUIRES(mutex_) {
      return std::ranges::count_if(read_,
                                   [&](const auto& one) { return one.first.front() == dataset; });
    };
    const MutexLock guard(mutex_);
    arrived_.wait_for(mutex_, std::chrono::seconds(10),
                      [&]() SHOAL_REQUIRES(mutex_) { return count() >= wanted; });
    return count();
  }
  void forget_reads() {
    const MutexLock guard(mutex_);
    read_.clear();
  }

  std::map<std::string, Kept> kept_;
  Mutex mutex_;
  CondVar arrived_;
  std::set<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> read_
      SHOAL_GUARDED_BY(mutex_);
  bool away_ = false;
};

TEST_F(StoredTokensTest, TheTokenizerIsThatOfTheFirstDatasetThatCarriesOne) {
  const std::string plain = add("a", {5'000}), made = add("b", {5'000});
  EXPECT_EQ(*tokenizer_of(spec({.dataset = plain})), "");
  const std::string hash(64, 'c');
  kept_.at(std::string(64, 'b')).manifest.tokenizer = hash;
  EXPECT_EQ(*tokenizer_of(spec({.dataset = made})), "tokenizer of " + hash);
  EXPECT_EQ(*tokenizer_of(spec({.mixture = {{plain, 1}, {made, 1}}})), "tokenizer of " + hash);
  EXPECT_EQ(*tokenizer_of(spec({.train = "/a.bin"})), "");
}

TEST_F(StoredTokensTest, AnEpochIsAsLongAsItsWindows) {
  const auto one = open(spec({.dataset = add("a", {50'000})}));
  ASSERT_TRUE(one.ok()) << to_string(one.error());
  const ChunkOrder order = order_of(spec({}), kept_.at(std::string(64, 'a')).manifest, 0);
  EXPECT_EQ((*one)->sequences(), order.windows());
  EXPECT_GT((*one)->validation_sequences(StoredTokens::kAllHeldOut), 0);
}

TEST_F(StoredTokensTest, EverySequenceIsAWindowAndNoneComesTwice) {
  const JobSpec job = spec({.dataset = add("a", {20 * kTokensOfChunk, 5 * kTokensOfChunk + 77})});
  const auto tokens = open(job);
  ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
  const ChunkOrder order = order_of(job, kept_.begin()->second.manifest, 0);
  std::set<std::int64_t> first;  // of each, within its shard: shards differ in their length alone
  std::vector<std::int64_t> out(kContext + 1);
  for (std::int64_t i = 0; i < order.windows(); ++i) {
    const Status got = (*tokens)->training_sequence(i, out);
    ASSERT_TRUE(got.ok()) << to_string(got.error());
    for (std::int64_t k = 1; k <= kContext; ++k) {
      ASSERT_EQ(out[static_cast<std::size_t>(k)], out[0] + k) << i;
    }
    first.insert(out[0]);
  }
  EXPECT_GT(static_cast<std::int64_t>(first.size()), order.windows() * 8 / 10);
}

TEST_F(StoredTokensTest, ReadsTheChunksOfWhatItTrainsOn) {
  const JobSpec job = spec({.dataset = add("a", {200 * kTokensOfChunk})});
  const auto tokens = open(job);
  ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
  const ChunkOrder order = order_of(job, kept_.begin()->second.manifest, 0);
  std::vector<std::int64_t> out(kContext + 1);
  for (std::int64_t i = 0; i < order.group_size(); ++i) {
    ASSERT_TRUE((*tokens)->training_sequence(i, out).ok());
  }
  const MutexLock guard(mutex_);
  EXPECT_EQ(static_cast<std::int64_t>(read_.size()), ChunkOrder::kOpenChunks);
}

// The last chunks are those of the group in which the lease ends.
TEST_F(StoredTokensTest, ReadsAheadWhatItWillTrainOnAndNoFurther) {
  const JobSpec job = spec({.dataset = add("a", {200 * kTokensOfChunk})});
  const ChunkOrder order = order_of(job, kept_.begin()->second.manifest, 0);
  const std::int64_t group = order.group_size();
  std::vector<std::int64_t> out(kContext + 1);
  for (const std::int64_t more : {std::int64_t{0}, std::int64_t{1}, group}) {
    const auto tokens = open(job);
    ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
    (*tokens)->will_read({{2 * group, group}, {7 * group, more}});
    ASSERT_TRUE((*tokens)->training_sequence(2 * group, out).ok());
    std::set<std::int64_t> wanted;
    for (const std::int64_t at : {2 * group, 7 * group}) {
      if (at == 7 * group && more == 0) continue;
      for (const std::int64_t chunk : order.chunks_around(at)) wanted.insert(chunk);
    }
    EXPECT_EQ(chunks_read(wanted.size()), wanted) << more;
    forget_reads();
  }
}

// A round's lease seldom is a whole group.
TEST_F(StoredTokensTest, ReadsAheadWhenMoreIsLeasedWithinAGroup) {
  const JobSpec job = spec({.dataset = add("a", {200 * kTokensOfChunk})});
  const std::int64_t group = order_of(job, kept_.begin()->second.manifest, 0).group_size();
  const auto tokens = open(job);
  ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
  std::vector<std::int64_t> out(kContext + 1);
  (*tokens)->will_read({{0, group - 1}});
  ASSERT_TRUE((*tokens)->training_sequence(group - 2, out).ok());
  EXPECT_EQ(reads_of('a', ChunkOrder::kOpenChunks), ChunkOrder::kOpenChunks);
  (*tokens)->will_read({{group - 1, 2}});
  ASSERT_TRUE((*tokens)->training_sequence(group - 1, out).ok());
  EXPECT_EQ(reads_of('a', 2 * ChunkOrder::kOpenChunks), 2 * ChunkOrder::kOpenChunks);
}

TEST_F(StoredTokensTest, ReadsAheadInEachDatasetOfAMixture) {
  const JobSpec job = spec(
      {.mixture = {{add("a", {100 * kTokensOfChunk}), 1}, {add("b", {100 * kTokensOfChunk}), 1}}});
  const auto tokens = open(job);
  ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
  const std::int64_t group = order_of(job, kept_.begin()->second.manifest, 0).group_size();
  (*tokens)->will_read({{0, 3 * group}});  // a group and a half of each
  std::vector<std::int64_t> out(kContext + 1);
  for (std::int64_t i = 0; i < 64; ++i) ASSERT_TRUE((*tokens)->training_sequence(i, out).ok());
  EXPECT_GE(reads_of('a', 2 * ChunkOrder::kOpenChunks), 2 * ChunkOrder::kOpenChunks);
  EXPECT_GE(reads_of('b', 2 * ChunkOrder::kOpenChunks), 2 * ChunkOrder::kOpenChunks);
}

// Chunks are read ahead in the order in which they were asked for: when those of a second dataset
// are there, the first has none to wait for.
TEST_F(StoredTokensTest, OfManyLargeDatasetsOneGroupEachIsHeld) {
  Manifest manifest{Tokenizer::kUint32, kChunkBytesMax, {}};
  const std::string hash(64, '0');
  manifest.shards.push_back({"web.bin", 80 * kChunkBytesMax, hash, hash, "", 0, 0});
  for (const char last : {'8', '9'}) {  // of 8 two groups fit in the memory, of 9 one
    DataSpec data;
    for (char name = '1'; name <= last; ++name) {
      data.mixture.push_back({std::string(1, name) + "@" + std::string(64, name), 1});
    }
    JobSpec job = spec(data);
    job.model.context = 8'192;
    const auto tokens = StoredTokens::open(
        job, [&](const std::string& name, std::int64_t shard, std::int64_t chunk) {
          if (shard == kManifestText) return Result<std::string>(to_text(manifest));
          const MutexLock guard(mutex_);
          read_.insert({name, {shard, chunk}});
          arrived_.notify_all();
          return Result<std::string>(std::string(kChunkBytesMax, '\0'));
        });
    ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
    (*tokens)->will_read({{0, 10'000}});
    const MixtureOrder order(std::vector<double>(data.mixture.size(), 1), job.train.seed);
    const auto name_of = [&](std::int64_t i) {
      return static_cast<char>('1' + order.place_of(i).dataset);
    };
    std::int64_t other = 1;
    while (name_of(other) == name_of(0)) ++other;
    std::vector<std::int64_t> out(static_cast<std::size_t>(job.model.context) + 1);
    for (const std::int64_t i : {std::int64_t{0}, other}) {
      ASSERT_TRUE((*tokens)->training_sequence(i, out).ok());
    }
    const std::int64_t wanted = ChunkOrder::kOpenChunks * (last == '8' ? 2 : 1);
    EXPECT_EQ(reads_of(name_of(other), wanted), wanted);
    EXPECT_EQ(reads_of(name_of(0), wanted), wanted);
    forget_reads();
  }
}

TEST_F(StoredTokensTest, AMixtureReadsEachDatasetByItsWeight) {
  const JobSpec job = spec({.mixture = {{add("a", {30 * kTokensOfChunk}), 0.7},
                                        {add("b", {30 * kTokensOfChunk}, 50'000), 0.3}}});
  const auto tokens = open(job);
  ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
  std::vector<std::int64_t> out(kContext + 1);
  std::int64_t of_b = 0;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE((*tokens)->training_sequence(i, out).ok());
    of_b += out[0] >= 50'000;
  }
  EXPECT_NEAR(static_cast<double>(of_b), 3'000, 150);
  const auto again = open(job);
  for (const std::int64_t i : {77, 9'000, 123'456}) {
    std::vector<std::int64_t> other(kContext + 1);
    ASSERT_TRUE((*tokens)->training_sequence(i, out).ok());
    ASSERT_TRUE((*again)->training_sequence(i, other).ok());
    EXPECT_EQ(out, other);
  }
}

TEST_F(StoredTokensTest, ValidationIsHeldOutOfAllDatasets) {
  const JobSpec job = spec({.mixture = {{add("a", {30 * kTokensOfChunk}), 0.5},
                                        {add("b", {12 * kTokensOfChunk}, 50'000), 0.5}}});
  const auto tokens = open(job);
  ASSERT_TRUE(tokens.ok()) << to_string(tokens.error());
  std::vector<std::int64_t> out(kContext + 1);
  const std::int64_t some = (*tokens)->validation_sequences(20);
  ASSERT_EQ(some, 20);
  std::int64_t of_b = 0;
  for (std::int64_t i = 0; i < some; ++i) {
    ASSERT_TRUE((*tokens)->validation_sequence(i, some, out).ok());
    of_b += out[0] >= 50'000;
    if (out[0] < 50'000) {
      EXPECT_GE(out[0], 27 * kTokensOfChunk);
    }
  }
  EXPECT_EQ(of_b, 10);
  const std::int64_t all = (*tokens)->validation_sequences(1'000'000);
  EXPECT_EQ(all, (3 + 1) * ((kTokensOfChunk - 1) / kContext)) << "b has one chunk for it";
  for (std::int64_t i = 0; i < all; ++i) {
    ASSERT_TRUE((*tokens)->validation_sequence(i, all, out).ok()) << i;
  }
}

TEST_F(StoredTokensTest, DigestsTellDatasetsApart) {
  const std::string a = add("a", {30 * kTokensOfChunk}), b = add("b", {30 * kTokensOfChunk});
  const Digest one = (*open(spec({.dataset = a})))->digest();
  EXPECT_EQ((*open(spec({.dataset = a})))->digest(), one);
  EXPECT_NE((*open(spec({.dataset = b})))->digest(), one);
  EXPECT_NE((*open(spec({.mixture = {{a, 1}, {b, 1}}})))->digest(),
            (*open(spec({.mixture = {{a, 1}, {b, 2}}})))->digest());
}

TEST_F(StoredTokensTest, RefusalsNameDatasetShardAndPlace) {
  const auto refusal = [&](const JobSpec& job) {
    const auto opened = open(job);
    return opened.ok() ? "" : to_string(opened.error());
  };
  JobSpec job = spec({.dataset = add("a", {30 * kTokensOfChunk})});
  job.model.vocab = 30'000;
  EXPECT_THAT(refusal(job), HasSubstr("data.dataset: dataset a: shard a0.bin: the token at "
                                      "position 0 is 30719, not below model.vocab (30000)"));
  job.model.vocab = 128'256;
  job.data.tokenizer = Tokenizer::kUint16;
  EXPECT_THAT(refusal(job), HasSubstr("its tokens are uint32, data.tokenizer is 'uint16'"));
  job.data.tokenizer = Tokenizer::kUint32;
  job.model.context = kTokensOfChunk;
  EXPECT_THAT(refusal(job), HasSubstr("hold no window of model.context + 1"));
  EXPECT_THAT(refusal(spec({.dataset = add("c", {40})})), HasSubstr("dataset c: is too short"));
  EXPECT_THAT(refusal(spec({.dataset = "c"})), HasSubstr("dataset c has no hash"));
}

// The manifest lies about its largest token.
TEST_F(StoredTokensTest, ATokenThatTheModelDoesNotHaveIsNamedWhereItIsRead) {
  const std::string dataset = add("a", {30 * kTokensOfChunk});
  kept_.begin()->second.manifest.shards[0].max_token = 5;
  JobSpec job = spec({.dataset = dataset});
  job.model.vocab = 100;
  const auto tokens = open(job);
  ASSERT_TRUE(tokens.ok());
  std::vector<std::int64_t> out(kContext + 1);
  const Status refused = (*tokens)->training_sequence(0, out);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kValidation);
  EXPECT_THAT(refused.error().message, HasSubstr("dataset a, shard a0.bin: the token at position"));
}

TEST_F(StoredTokensTest, WhatCannotBeReadNowIsSaidWithTheDataset) {
  const auto tokens = open(spec({.dataset = add("a", {30 * kTokensOfChunk})}));
  away_ = true;
  std::vector<std::int64_t> out(kContext + 1);
  const Status refused = (*tokens)->training_sequence(0, out);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("dataset a, shard a0.bin, byte 0: nobody"));
  away_ = false;
  EXPECT_TRUE((*tokens)->training_sequence(0, out).ok());
}

}  // namespace
}  // namespace shoal::data
