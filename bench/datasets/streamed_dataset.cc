#include "bench/datasets/streamed_dataset.h"

#include <cstring>

#include "base/check.h"
#include "base/prng.h"
#include "base/sha256.h"

namespace shoal::bench {
namespace {

constexpr std::int64_t kChunk = data::kChunkBytesMax, kChunksOfShard = 1'024;

std::string raw_of(const std::string& hex) {
  std::string raw;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return raw;
}

}  // namespace

StreamedDataset::StreamedDataset(std::int64_t gib, bool hashed) {
  manifest_ = {Tokenizer::kUint32, kChunk, {}};
  for (std::int64_t i = 0; i < gib; ++i) {
    const std::string name = "web-" + std::to_string(i) + ".bin";
    manifest_.shards.push_back(
        {name, kChunk * kChunksOfShard, sha256_of(name), sha256_of(name), "", kVocab - 1, 0});
    if (hashed) hash_shard(i);
  }
  manifest_text_ = data::to_text(manifest_);
  manifest_hash_ = sha256_of(manifest_text_);
}

void StreamedDataset::hash_shard(std::int64_t number) {
  data::Shard& shard = manifest_.shards[static_cast<std::size_t>(number)];
  std::string hashes;
  for (std::int64_t i = 0; i < kChunksOfShard; ++i) hashes += raw_of(sha256_of(chunk(number, i)));
  shard.chunks = sha256_of(hashes);
  files_[shard.chunks] = std::move(hashes);
  shard_of_hash_[shard.sha256] = number;
}

std::string StreamedDataset::chunk(std::int64_t shard, std::int64_t chunk) const {
  std::string bytes(static_cast<std::size_t>(kChunk), '\0');
  std::uint64_t state = mix_seed(static_cast<std::uint64_t>(shard * kChunksOfShard + chunk), 1);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    state = state * 6'364'136'223'846'793'005ULL + 1'442'695'040'888'963'407ULL;
    const auto token = static_cast<std::uint32_t>((state >> 32) * kVocab >> 32);
    std::memcpy(bytes.data() + at, &token, sizeof token);
  }
  return bytes;
}

std::string StreamedDataset::range(const agent::FileRange& range) const {
  if (range.sha256 == manifest_hash_) return manifest_text_;
  const auto list = files_.find(range.sha256);
  if (list != files_.end()) return list->second;
  SHOAL_CHECK(range.count == kChunk && range.from % kChunk == 0);
  return chunk(shard_of_hash_.at(range.sha256), range.from / kChunk);
}

}  // namespace shoal::bench
