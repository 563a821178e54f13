#include "agent/host/data_source.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "agent/host/folder_test_util.h"
#include "base/sha256.h"

namespace shoal::agent {
namespace {

using ::testing::HasSubstr;

constexpr ReplicaId kReplica{7};
constexpr std::int64_t kChunk = data::kChunkBytesMin;

std::string raw_of(const std::string& hex) {
  std::string raw;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return raw;
}

// A dataset of one shard with three chunks, the last one short.
class DataSourceTest : public ::testing::Test {
 protected:
  DataSourceTest() {
    for (std::int64_t i = 0; i < 2 * kChunk + 100; ++i) shard_ += static_cast<char>(i * i % 251);
    std::string hashes;
    for (std::size_t at = 0; at < shard_.size(); at += kChunk) {
      hashes += raw_of(sha256_of(shard_.substr(at, kChunk)));
    }
    shard_hash_ = put(shard_);
    hashes_hash_ = put(hashes);
    manifest_ = put(data::to_text({Tokenizer::kBytes,
                                   kChunk,
                                   {{"a.txt", static_cast<std::int64_t>(shard_.size()), shard_hash_,
                                     hashes_hash_, "", 250, 0}}}));
    open(1 << 20);
  }
  std::string put(const std::string& text) {
    files_[sha256_of(text)] = text;
    return sha256_of(text);
  }
  void open(std::int64_t limit) {
    source_.reset();
    cache_ = std::move(DataCache::open(folder_.path() + "/cache", Bytes(limit))).value();
    source_ = std::make_unique<DataSource>(*cache_,
                                           [this](const FileRange& range) { return fetch(range); });
  }
  Result<std::string> fetch(const FileRange& range) {
    ++fetches_;
    EXPECT_EQ(range.replica, kReplica);
    if (away_) return Error{Code::kUnavailable, "nobody answers", "", ""};
    const std::string& text = files_.at(range.sha256);
    return range.count == 0 ? text.substr(static_cast<std::size_t>(range.from))
                            : text.substr(static_cast<std::size_t>(range.from),
                                          static_cast<std::size_t>(range.count));
  }
  Result<std::string> read(std::int64_t shard, std::int64_t chunk) {
    return source_->read(kReplica, manifest_, shard, chunk);
  }

  TestFolder folder_;
  std::string shard_, shard_hash_, hashes_hash_, manifest_;
  std::map<std::string, std::string> files_;
  std::atomic<int> fetches_ = 0;
  bool away_ = false;
  std::unique_ptr<DataCache> cache_;
  std::unique_ptr<DataSource> source_;
};

TEST_F(DataSourceTest, FetchesAChunkOnceAlsoOverAStart) {
  EXPECT_EQ(*read(0, 1), shard_.substr(kChunk, kChunk));
  EXPECT_EQ(fetches_, 3) << "the manifest, the hashes, the chunk";
  EXPECT_EQ(*read(0, 1), shard_.substr(kChunk, kChunk));
  EXPECT_EQ(*read(0, 2), shard_.substr(2 * kChunk));
  EXPECT_EQ(fetches_, 4);
  open(1 << 20);
  EXPECT_EQ(*read(0, 1), shard_.substr(kChunk, kChunk));
  EXPECT_TRUE(data::parse_manifest(*read(DataSource::kManifest, 0)).ok());
  EXPECT_EQ(fetches_, 4);
}

TEST_F(DataSourceTest, TheTokenizerIsFetchedAsTheManifestNamesIt) {
  EXPECT_EQ(read(DataSource::kTokenizer, 0).error().code, Code::kNotFound) << "it names none";
  data::Manifest manifest = *data::parse_manifest(files_.at(manifest_));
  manifest.tokenizer = put("{}");
  manifest_ = put(data::to_text(manifest));
  EXPECT_EQ(*read(DataSource::kTokenizer, 0), "{}");
  const int before = fetches_;
  EXPECT_EQ(*read(DataSource::kTokenizer, 0), "{}");
  EXPECT_EQ(fetches_, before);
}

TEST_F(DataSourceTest, WorksWithoutACache) {
  open(0);
  EXPECT_EQ(*read(0, 0), shard_.substr(0, kChunk));
  EXPECT_EQ(*read(0, 0), shard_.substr(0, kChunk));
  EXPECT_EQ(source_->fetched_bytes() % kChunk != 0, true);
}

TEST_F(DataSourceTest, ADamagedCacheIsFetchedAgain) {
  ASSERT_TRUE(read(0, 0).ok());
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder_.path() + "/cache")) {
    if (entry.is_regular_file()) std::ofstream(entry.path()) << "other";
  }
  const int before = fetches_;
  EXPECT_EQ(*read(0, 0), shard_.substr(0, kChunk));
  EXPECT_EQ(fetches_, before + 2) << "the hashes and the chunk";
  EXPECT_GE(cache_->damaged(), 2);
}

TEST_F(DataSourceTest, ADamagedChunkAloneIsFetchedAgain) {
  for (const std::int64_t chunk : {0, 1, 2}) ASSERT_TRUE(read(0, chunk).ok());
  const std::string damaged = sha256_of(shard_.substr(kChunk, kChunk));
  const std::string path = folder_.path() + "/cache/" + damaged.substr(0, 2) + "/" + damaged;
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).put('\1');
  const int before = fetches_;
  for (const std::int64_t chunk : {0, 1, 2}) {
    EXPECT_EQ(*read(0, chunk), shard_.substr(static_cast<std::size_t>(chunk * kChunk), kChunk));
  }
  EXPECT_EQ(fetches_, before + 1);
  EXPECT_EQ(cache_->damaged(), 1);
}

TEST_F(DataSourceTest, ASourceThatLiesIsFoundOut) {
  files_[shard_hash_][static_cast<std::size_t>(kChunk) + 5] ^= 1;
  EXPECT_TRUE(read(0, 0).ok());
  const auto refused = read(0, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kDataLoss);
  EXPECT_THAT(refused.error().message,
              HasSubstr("shard a.txt, byte 4096: the bytes received have another SHA-256"));
  files_[shard_hash_] = files_[shard_hash_].substr(0, static_cast<std::size_t>(kChunk) + 9);
  EXPECT_EQ(read(0, 1).error().code, Code::kDataLoss) << "cut short";
}

TEST_F(DataSourceTest, ASourceThatIsAwayIsWorthAnotherTry) {
  away_ = true;
  EXPECT_EQ(read(0, 0).error().code, Code::kUnavailable);
  away_ = false;
  EXPECT_TRUE(read(0, 0).ok());
  away_ = true;
  EXPECT_TRUE(read(0, 0).ok()) << "it is here";
  EXPECT_THAT(read(0, 1).error().message, HasSubstr("shard a.txt, byte 4096: nobody answers"));
}

TEST_F(DataSourceTest, WhatTheManifestDoesNotListIsNotThere) {
  for (const auto& [shard, chunk] : {std::pair(0, 3), {0, -1}, {1, 0}, {-2, 0}}) {
    EXPECT_EQ(read(shard, chunk).error().code, Code::kNotFound) << shard << " " << chunk;
  }
}

TEST_F(DataSourceTest, SeveralThreadsFetchItOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { EXPECT_TRUE(read(0, 1).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fetches_, 3);
}

}  // namespace
}  // namespace shoal::agent
